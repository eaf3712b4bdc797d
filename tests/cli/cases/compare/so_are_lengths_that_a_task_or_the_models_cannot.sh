#!/bin/bash
# So are lengths that a task or the models cannot have, answers that do not fit, and items of another
# form.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 64 --batch 4 --mechanisms mha \
  --out t"
for t in ruler:vt ruler:vt@64 ruler@4k ruler:vt@4k ruler:vt@6z gsm8k=$DATA/tasks/written/gsm8k.jsonl copa=$DATA/tasks/written/gsm8k.jsonl; do
  $C --tasks $t && exit 3
done
ls -A | wc -l
