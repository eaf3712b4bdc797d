#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method basis-sharing --ratio 0.2 --group-size 1 \
    --calibration t.txt --out small
