#!/bin/bash
crosshead absorb $DATA/reference/qwen3 --out plain && crosshead forward plain --tokens 1,2,3,4 --json >a &&
  crosshead forward $DATA/reference/qwen3 --tokens 1,2,3,4 --json >b && cmp a b && cat plain/config.json &&
  test -s plain/model.safetensors
