#!/bin/bash
crosshead compress $DATA/reference/qwen3_moe --method mea --component-heads 1 --out small >/dev/null &&
  crosshead info small && crosshead absorb small --out plain &&
  crosshead export plain --format gguf --out model.gguf
