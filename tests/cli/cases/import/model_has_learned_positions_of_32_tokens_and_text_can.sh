#!/bin/bash
crosshead import $DATA/reference/gpt2 --out g >/dev/null && cat g/config.json &&
  crosshead forward g --tokens $(seq -s, 1 33)
