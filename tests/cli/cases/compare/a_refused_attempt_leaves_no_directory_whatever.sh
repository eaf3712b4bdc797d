#!/bin/bash
# A refused attempt leaves no directory, whatever it had prepared.
C="crosshead compare --data $DATA/../../LICENSE --tokens 2k --seq 32 --batch 4"
$C --params 2k --out a/b
$C --params 60k --mechanisms mha,gqa:3 --out a/b
$C --params 60k --seq 100000 --out a/b
$C --params 60k --mechanisms nope --out a/b
ls -A
echo end
