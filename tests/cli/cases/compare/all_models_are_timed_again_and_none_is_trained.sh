#!/bin/bash
# All models are timed again, and none is trained.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 \
  --mechanisms mha,mqa --out c"
$C >/dev/null 2>&1
cp c/mha/model.safetensors before
cp c/mha/log.jsonl log
cp c/mha/result.json old
$C --remeasure 2>/dev/null
cmp before c/mha/model.safetensors && cmp log c/mha/log.jsonl && ! cmp -s old c/mha/result.json &&
  echo only the speeds
sed 's/[0-9.]*//g' old | grep -v steady >a
sed 's/[0-9.]*//g' c/mha/result.json | grep -v steady | cmp - a && echo the same keys
