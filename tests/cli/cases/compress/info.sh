#!/bin/bash
crosshead compress $DATA/reference/qwen3 --method mea --component-heads 1 --layers 1-1 --dtype bf16 \
    --out small --json 2>/dev/null &&
  cat small/config.json && crosshead info small
