#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --ratio 0.2 --out small
