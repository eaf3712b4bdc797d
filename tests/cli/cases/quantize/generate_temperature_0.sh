#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q4_0 --out small &&
  crosshead generate small --prompt "Once upon a time" --max-tokens 4 --temperature 0 2>/dev/null &&
  test $(stat -c %s small/model.safetensors) -lt 600000 && test -s small/tokenizer.json
