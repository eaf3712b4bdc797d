#!/bin/bash
# The result is a model for the other commands, and a finished run is left as it is.
crosshead train $DATA/../../configs/tiny-mqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --out m --steps 2 --batch 2 --seq 32 2>/dev/null &&
  crosshead info m && cp m/log.jsonl before && crosshead train --out m --resume 2>/dev/null &&
  cmp before m/log.jsonl
