#!/bin/bash
crosshead export $DATA/TinyStories-656K --format transformers --own-code --out out &&
  grep -c '^class CrossheadForCausalLM' out/modeling_crosshead.py &&
  crosshead forward out --tokens 1,2,3,4 --json >a &&
  crosshead forward $DATA/TinyStories-656K --tokens 1,2,3,4 --json >b && cmp a b
