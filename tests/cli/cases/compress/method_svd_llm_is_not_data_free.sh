#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method svd-llm --ratio 0.2 --calibration $DATA/../../data/tinyshakespeare.txt --data-free --out o
