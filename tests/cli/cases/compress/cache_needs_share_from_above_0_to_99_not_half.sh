#!/bin/bash
crosshead compress $DATA/TinyStories-656K --cache half --calibration t.txt --out small
