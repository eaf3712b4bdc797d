#!/bin/bash
C="crosshead compare --data $DATA/../../LICENSE --layers 1 --hidden 32 --heads 2 --match none --tokens 2k \
  --seq 32 --batch 4 --dry-run --mechanisms"
for M in swa mla+gdn; do
  $C $M
  echo $?
done
