#!/bin/bash
CROSSHEAD_RUNS=kept.sqlite crosshead train $DATA/../../configs/tiny-gqa.json \
    --data $DATA/../../data/tinyshakespeare.txt --tokenizer $DATA/TinyStories-656K --out m --steps 2 \
    --batch 2 --seq 16 --eval-tokens 64 &&
  crosshead runs --runs kept.sqlite
