#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../data/tinyshakespeare.txt \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 16 --eval-tokens 64 --runs none &&
  test ! -e runs.sqlite && crosshead runs add m m && crosshead runs delete 1 --dry-run &&
  crosshead runs delete status=done && crosshead runs
