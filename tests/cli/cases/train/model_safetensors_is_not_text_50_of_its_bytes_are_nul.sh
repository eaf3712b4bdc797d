#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/TinyStories-656K/model.safetensors \
    --tokenizer $DATA/TinyStories-656K --out m --steps 1
