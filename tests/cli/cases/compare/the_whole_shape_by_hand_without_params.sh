#!/bin/bash
# The whole shape by hand, without --params.
crosshead compare --data $DATA/../../LICENSE --layers 1 --hidden 16 --heads 2 --match none --tokens 2k \
    --seq 32 --batch 4 --mechanisms mha --dry-run --out c
