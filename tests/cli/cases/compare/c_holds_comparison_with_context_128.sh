#!/bin/bash
# Windows keep no more than they are wide, so caches are compared at a length of text.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --layers 4 \
  --mechanisms mha,mha+swa:4,cla"
$C --context 128 --out c --json >r.json 2>/dev/null
grep -c '"cache_depth": 128' r.json
grep -o '"cache_elements_at_depth": [0-9]*' r.json
$C --context 64 --out c
