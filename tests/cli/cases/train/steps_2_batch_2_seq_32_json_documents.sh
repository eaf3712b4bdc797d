#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 32 --json --documents \
    --accumulate 2 2>/dev/null
