#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 32 >/dev/null 2>&1
crosshead train --out m --resume --lr 0.1
