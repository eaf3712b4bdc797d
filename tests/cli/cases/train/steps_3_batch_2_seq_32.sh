#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out m --steps 3 --batch 2 --seq 32 &&
  test -s m/config.json && test -s m/model.safetensors && test -s m/tokenizer.json &&
  test -s m/checkpoint.safetensors && test -s m/log.jsonl
