#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q8_0 --out $DATA/TinyStories-656K
