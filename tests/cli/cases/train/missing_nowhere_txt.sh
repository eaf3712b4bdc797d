#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data nowhere.txt --tokenizer $DATA/TinyStories-656K \
    --out m --steps 1
