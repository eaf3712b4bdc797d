#!/bin/bash
mkdir -p here/below
cp $DATA/TinyStories-656K/* here
cd here/below
crosshead absorb $DATA/reference/qwen3 --out .. --force
