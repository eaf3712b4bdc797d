#!/bin/bash
crosshead export $DATA/reference/qwen3 --format gguf --out model.gguf &&
  crosshead import model.gguf --out back >/dev/null && crosshead forward back --tokens 1,2,3,4 --json >a &&
  crosshead forward $DATA/reference/qwen3 --tokens 1,2,3,4 --json >b && cmp a b && test -s model.gguf
