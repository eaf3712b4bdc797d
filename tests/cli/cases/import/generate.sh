#!/bin/bash
crosshead import $DATA/TinyStories-656K --dtype f16 --out model &&
  crosshead generate model --prompt Once --max-tokens 2 >/dev/null 2>&1 && test -s model/tokenizer.json
