#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q4_0 --out small >/dev/null &&
  crosshead export small --format gguf --out small.gguf &&
  crosshead import small.gguf --keep-blocks --out back &&
  cmp small/model.safetensors back/model.safetensors &&
  crosshead export small --format safetensors --out copy >/dev/null &&
  cmp small/model.safetensors copy/model.safetensors
