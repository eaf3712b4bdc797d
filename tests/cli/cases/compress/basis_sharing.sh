#!/bin/bash
# Basis Sharing: every command opens what it writes.
# unsanitized: takes long, and unit tests run the same code
for i in $(seq 300); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
crosshead compress $DATA/TinyStories-656K --method basis-sharing --ratio 0.2 --calibration t.txt --out b \
    --json 2>/dev/null |
  grep -e '"ranks"' -e '"groups"' -e ratio_reached
for c in "forward b --tokens 1,2,3,4,5 --json" "absorb b --out ba" "forward ba --tokens 1,2,3,4,5 --json" "generate b --prompt Once --tokens 4 --temperature 0" "generate ba --prompt Once --tokens 4 --temperature 0" "eval b --text t.txt" "export b --format gguf --out b.gguf" "compress b --method svd --ratio 0.1 --out bs" "bench b --prompt 4 --depth 0 --tokens 2 --repeat 1" "train --init-from b --data t.txt --steps 2 --batch 1 --seq 16 --runs none --out bt" "forward bt --tokens 1,2 --json"; do
  crosshead $c >o 2>/dev/null && echo "ran $c"
  grep -o '"loss": [0-9.]\{6\}' o
done
crosshead info b --json | grep parameters_attention
cat b/config.json
