#!/bin/bash
echo 'Once upon a time there was a dog.' >t.txt
crosshead compress $DATA/TinyStories-656K --method mea --budget 90% --calibration t.txt --out small
