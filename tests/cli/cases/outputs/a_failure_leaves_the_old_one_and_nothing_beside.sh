#!/bin/bash
# A failure leaves the old one, and nothing beside it.
m=$DATA/TinyStories-656K
crosshead absorb $m --out d >/dev/null
cp -r d kept
(
  ulimit -f 100
  crosshead quantize $m --type q8_0 --out d --force 2>/dev/null
  crosshead compress $m --method mea --component-heads 2 --out d --force >/dev/null 2>&1
  crosshead train $DATA/../../configs/tiny-gqa.json --data nowhere --out d --force 2>/dev/null
)
diff -r d kept && ls
