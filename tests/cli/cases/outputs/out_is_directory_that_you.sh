#!/bin/bash
cp -r $DATA/TinyStories-656K here
cd here
crosshead absorb $DATA/reference/qwen3 --out . --force
