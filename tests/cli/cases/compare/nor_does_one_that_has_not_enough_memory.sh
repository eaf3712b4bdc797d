#!/bin/bash
# Nor does one that has not enough memory (the address sanitiser's own takes more than this limit);
# and a comparison that was there can be gone on with as it was.
C="crosshead compare --data $DATA/../../LICENSE --tokens 2k --seq 32 --batch 4 --threads 1"
(
  ulimit -v 2000000
  crosshead --version >/dev/null 2>&1 || {
    echo "no memory for weights, since a sanitised program cannot even begin" >&2
    exit
  }
  $C --params 400M --vocab 1000 --out a
)
ls -A
$C --params 60k --mechanisms mha --out b >/dev/null 2>&1
cp b/compare.json before
touch b/gqa
$C --params 60k --mechanisms mha,gqa --out b
cmp before b/compare.json && echo the same
