#!/bin/bash
# Qwen3's mixtures: as GGUF and back, and compressed, absorbed and exported as one again.
crosshead export $DATA/reference/qwen3_moe --format gguf --out model.gguf &&
  crosshead import model.gguf --out back && crosshead forward back --tokens 1,2,3,4 --json >a &&
  crosshead forward $DATA/reference/qwen3_moe --tokens 1,2,3,4 --json >b && cmp a b
