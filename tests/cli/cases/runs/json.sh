#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../data/tinyshakespeare.txt \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 16 --eval-tokens 64 &&
  crosshead runs && crosshead runs show 1 && crosshead runs seed=0 'tokens>63' &&
  crosshead runs list lr=0.5 && crosshead runs --json && test -s runs.sqlite
