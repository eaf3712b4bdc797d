#!/bin/bash
for e in '' --keep-embedding; do
  crosshead quantize $DATA/TinyStories-656K --type q8_0 --out m$e $e >/dev/null
  stat -c %s m$e/model.safetensors
done | sort -n | uniq | wc -l
