#!/bin/bash
for i in $(seq 300); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
for m in masa svd-llm svd; do
  crosshead compress $DATA/TinyStories-656K --method $m --ratio 0.2 --calibration t.txt --keep o --out $m \
      --json 2>/dev/null |
    grep -e '"ratio_reached"' -e '"projection": "o_proj"'
  crosshead forward $m --tokens 1,2,3 --json | cut -c1-8
done
