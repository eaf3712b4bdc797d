#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method svd --ratio 0.2 --weighting paper --out small
