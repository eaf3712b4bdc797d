#!/bin/bash
# PyTorch trains on the devices that are named.
C="crosshead sweep --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 64 --batch 4 --mechanisms mha \
  --lr 1e-3 --out t"
$C --device cpu
$C --engine pytorch --device cpu --python /no/python && exit 3
true
