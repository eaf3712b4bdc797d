#!/bin/bash
mkdir -p runs/old
cp $DATA/TinyStories-656K/* runs/old
crosshead absorb $DATA/TinyStories-656K --out runs --force
