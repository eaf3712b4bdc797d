#!/bin/bash
# The same at other sizes, with laws; what is trained is kept, and the comparison itself is one that
# was there.
# unsanitized: takes long, and unit tests run the same code
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
C="crosshead compare --data t.txt --mechanisms mha,mqa --params 60k --vocab 300 --tokens 2k --seq 16 \
  --batch 4 --eval-tokens 256 --out c"
$C >/dev/null 2>&1
cp c/mha/model.safetensors before
$C --ladder 30k,40k,50k --target 1M --dry-run
ls c/rungs 2>&1
$C --ladder 30k,40k,50k --target 1M 2>err
grep -c 'finished earlier' err
grep '^size' err
cmp before c/mha/model.safetensors && echo kept
$C --ladder 30k,40k,50k --json 2>err | tr -d '\n ' | grep -o '"laws":\[{"name":"mha","E":{"value":[0-9]'
grep -c 'finished earlier' err
tr -d '\n ' <c/results.json |
  grep -o '"multipliers":\[{"name":"mha","baseline":"mha",\|"ladder":{"law":\|"kind":"undecided"'
ls c/rungs
