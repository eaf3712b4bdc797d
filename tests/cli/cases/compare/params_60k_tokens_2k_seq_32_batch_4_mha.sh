#!/bin/bash
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --mechanisms mha \
  --tune --out c"
$C 2>&1 | grep -E 'at the rate|^Learning'
ls c/tune/mha
$C 2>&1 | grep -c 'at the rate'
grep -c '"stopped"' c/results.json
