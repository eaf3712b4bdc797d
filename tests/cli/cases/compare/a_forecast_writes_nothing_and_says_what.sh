#!/bin/bash
# A forecast writes nothing, and says what a comparison that is there lacks.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4"
$C --mechanisms mha,mla --seeds 2 --out c --dry-run
ls -A
$C --mechanisms mha --out c >/dev/null 2>&1
find c -type f | xargs sha256sum | sort >before
$C --mechanisms mha,mqa --out c --dry-run
$C --mechanisms mha --out c --dry-run
find c -type f | xargs sha256sum | sort | cmp - before && echo untouched
