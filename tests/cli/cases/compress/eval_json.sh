#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
for i in $(seq 400); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
crosshead compress $DATA/TinyStories-656K --method mea --calibration t.txt --budget 25% --profile \
    --out small 2>/dev/null &&
  crosshead train --init-from small --recover --data t.txt --out tuned --steps 2 --batch 2 \
    --seq 32 >/dev/null 2>&1 &&
  crosshead compress tuned --method mea --component-heads 1 --text t.txt --out smaller 2>/dev/null &&
  crosshead absorb small --out plain && crosshead eval smaller --text t.txt --json
