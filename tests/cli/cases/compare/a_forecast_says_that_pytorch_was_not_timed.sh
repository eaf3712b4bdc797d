#!/bin/bash
crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 64 --batch 4 --mechanisms mha,mla \
  --out t --dry-run --engine pytorch --python /no/python
ls -A
