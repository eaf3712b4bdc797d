#!/bin/bash
# Trained models answer tasks, also later; what is no task, or has no items, is refused before
# anything is trained.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 64 --batch 4 --mechanisms mha \
  --out t"
$C --tasks copa
$C --tasks copa=nowhere
$C --tasks hella
ls -A
$C >/dev/null 2>&1
cp t/mha/log.jsonl log
$C --tasks copa=$DATA/tasks/copa.jsonl --task-items 1
cmp log t/mha/log.jsonl && grep -c '"limit": 1' t/results.json
