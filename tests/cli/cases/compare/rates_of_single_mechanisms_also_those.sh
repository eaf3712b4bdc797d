#!/bin/bash
# Rates of single mechanisms, also those that are found; a finished comparison keeps its rates.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 \
  --mechanisms mha,mqa --out c"
$C --lr 1e-3,mqa=2e-3 >/dev/null 2>&1
grep -h '"lr"' c/mha/result.json c/mqa/result.json
$C --lr 1e-3
$C --lr 1e-3,mla=2e-3
echo end
