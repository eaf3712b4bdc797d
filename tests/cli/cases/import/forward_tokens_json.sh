#!/bin/bash
crosshead forward $DATA/reference/gemma3_text --tokens $(seq -s, 1 30) --json >a &&
  crosshead import $DATA/reference/gemma3_text --out g && grep -c sliding_attention g/config.json &&
  crosshead forward g --tokens $(seq -s, 1 30) --json >b && cmp a b
