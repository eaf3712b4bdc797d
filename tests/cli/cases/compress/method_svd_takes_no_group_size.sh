#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method svd --ratio 0.2 --group-size 3 --out small
