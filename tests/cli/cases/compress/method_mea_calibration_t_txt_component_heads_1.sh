#!/bin/bash
for i in $(seq 400); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
crosshead compress $DATA/TinyStories-656K --method mea --calibration t.txt --component-heads 1 --budget 50% \
    --out small --json 2>/dev/null
grep -A1 '"layers"' small/config.json
