#!/bin/bash
mkdir m
echo mine >m/notes
crosshead train $DATA/../../configs/tiny-gqa.json --data x --out m
s=$?
[ "$(cat m/notes)" = mine ] || echo lost
exit $s
