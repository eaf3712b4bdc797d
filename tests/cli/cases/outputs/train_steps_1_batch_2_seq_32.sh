#!/bin/bash
mkdir far
ln -s far near
crosshead absorb $DATA/TinyStories-656K --out near >/dev/null && ls far | grep -c model.safetensors
mkdir away
ln -s away run
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out run --steps 1 --batch 2 --seq 32 2>/dev/null
ls away | grep -c checkpoint
