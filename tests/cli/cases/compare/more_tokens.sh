#!/bin/bash
# More tokens: finished models are trained further, bit-identical to one long run.
# unsanitized: takes long, and unit tests run the same code
C="crosshead compare --data $DATA/../../LICENSE --params 60k --seq 32 --batch 4 --mechanisms mha \
  --schedule constant"
$C --tokens 3k --out c >/dev/null 2>&1
grep -c '"step"' c/mha/log.jsonl
$C --tokens 5k --seeds 2 --out c >/dev/null 2>&1
grep grown c/compare.json
W=$(grep -o '"warmup": [0-9]*' c/results.json)
$C --tokens 5k --warmup ${W#*: } --out whole >/dev/null 2>&1
cmp c/mha/model.safetensors whole/mha/model.safetensors && echo same bits
grep -h '"validation_loss"' c/mha/result.json whole/mha/result.json | uniq | wc -l
$C --tokens 4k --seeds 2 --out c
echo $?
rm c/mha/checkpoint.safetensors
$C --tokens 6k --seeds 2 --out c
echo $?
