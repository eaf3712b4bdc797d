#!/bin/bash
# Training goes on when the trace cannot be written, and ends with that.
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../data/tinyshakespeare.txt \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 16 --eval-tokens 32 \
    --trace none/t.json 2>&1 |
  grep '^crosshead'
ls m/model.safetensors
