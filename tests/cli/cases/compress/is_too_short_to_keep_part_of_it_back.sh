#!/bin/bash
printf a >t.txt
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --calibration t.txt --out small
