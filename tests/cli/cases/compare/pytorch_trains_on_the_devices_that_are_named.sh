#!/bin/bash
# PyTorch trains on the devices that are named.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 64 --batch 4 --mechanisms mha \
  --out t"
$C --device cpu
$C --engine pytorch --device cpu --python /no/python && exit 3
ls -A | wc -l
