#!/bin/bash
crosshead export $DATA/TinyStories-656K --format safetensors --dtype bf16 --no-tokenizer --out kept &&
  crosshead info kept --json && test ! -e kept/tokenizer.json
