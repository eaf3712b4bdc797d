#!/bin/bash
# Products of BF16: another run than F32's, the same one when resumed, and a checkpoint that neither
# takes for its own.
T="crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
  --tokenizer $DATA/TinyStories-656K --steps 12 --batch 4 --seq 32 --eval-tokens 500"
$T --out f 2>/dev/null >/dev/null
$T --out whole --compute bf16 2>/dev/null >/dev/null
$T --out again --compute bf16 --recompute 2>/dev/null >/dev/null
cmp whole/model.safetensors again/model.safetensors && echo same bits
cmp -s f/model.safetensors whole/model.safetensors || echo other bits
crosshead train --out whole --resume --compute f32
