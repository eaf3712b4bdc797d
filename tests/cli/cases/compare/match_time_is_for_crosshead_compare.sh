#!/bin/bash
# Equal time: the steps that fit in are measured once, and kept. What is added is timed against the
# same seconds.
# unsanitized: takes long, and unit tests run the same code
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --match time \
  --out c"
$C --mechanisms mha,mqa 2>/dev/null
grep -A6 '"timed"' c/compare.json | tr -d '\n' | sed 's/  */ /g' >first
$C --mechanisms mha,mqa,mla >/dev/null 2>&1
grep -A6 '"timed"' c/compare.json | tr -d '\n' | sed 's/  */ /g' >second
S=$(sed 's/.*"mqa": \([0-9]*\).*/\1/' first)
grep -q "\"mqa\": $S," second && grep -q '"mha": 16,.*"mla": [1-9]' second && echo kept
[ $(grep -c '"step"' c/mqa/log.jsonl) -ge $S ] && echo $((S * 128)) |
  grep -q "^$(sed -n 's/.*"tokens_trained": \([0-9]*\),/\1/p' c/mqa/result.json)$" && echo trained as long
crosshead sweep --data $DATA/../../LICENSE --match time --out s
