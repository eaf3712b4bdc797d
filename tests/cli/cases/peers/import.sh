#!/bin/bash
peers=$DATA/../../bench/peers
command -v python3 >/dev/null || {
  echo 'no python3'
  exit 77
}
python3 $peers/random_model.py $DATA/reference/llama_gqa/config.json m.bin && crosshead import m.bin --out m
