#!/bin/bash
# What is made equal is chosen, and said with what differs.
# unsanitized: takes long, and unit tests run the same code
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 \
  --mechanisms mha,mla"
$C --match flops --out f 2>/dev/null
$C --match none --out n 2>err
cat err | grep -c 'FFN 70,'
grep -A1 '"match"' f/results.json
$C --match all --out a >/dev/null 2>&1
$C --match parameters --out a 2>/dev/null
sed -i 's/"parameters"/"all"/' a/compare.json
$C --out a >/dev/null 2>&1 && echo continued
