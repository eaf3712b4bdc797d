#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out /dev/null/m --steps 1
