#!/bin/bash
crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --mechanisms mha \
    --dry-run --json --out c |
  tr -d '\n '
ls -A
