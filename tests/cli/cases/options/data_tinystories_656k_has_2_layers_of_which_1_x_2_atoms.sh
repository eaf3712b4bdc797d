#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method masa --ratio 0.2 --groups 1 --atoms 2 --out masa
