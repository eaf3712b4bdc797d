#!/bin/bash
mkdir small.partial && echo half >small.partial/model.safetensors.tmp.4711 &&
  echo '{}' >small.partial/config.json &&
  crosshead compress $DATA/TinyStories-656K --method svd --ratio 0.2 --out small >/dev/null 2>&1 && ls small |
  grep -c tmp
ls -d small.partial 2>/dev/null || echo clean && test -s small/model.safetensors
