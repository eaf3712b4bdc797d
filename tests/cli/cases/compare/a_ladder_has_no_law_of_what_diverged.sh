#!/bin/bash
# A mechanism that diverged at a size of a ladder has no law; the others have theirs. If all diverged, there are no laws.
# unsanitized: takes long
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 10k --seq 32 --batch 4 --parametrization standard \
  --ladder 40k,50k,70k"
$C --mechanisms gdn,mqa --lr gdn=10,mqa=1e-3 --out c 2>/dev/null | grep -E 'has no law|^law|^(gdn|mqa) .*1×'
tr -d '\n ' <c/results.json | grep -o '"laws":\[{"name":"[a-z]*"'
$C --mechanisms gdn --lr 10 --out d 2>&1 >/dev/null | tail -1
echo "${PIPESTATUS[0]}"
