#!/bin/bash
: >empty
crosshead train $DATA/../../configs/tiny-gqa.json --data empty --tokenizer $DATA/TinyStories-656K --out m \
    --steps 1
