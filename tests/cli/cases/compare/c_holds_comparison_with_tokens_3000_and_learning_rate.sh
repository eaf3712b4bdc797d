#!/bin/bash
C="crosshead compare --data $DATA/../../LICENSE --params 60k --seq 32 --batch 4 --mechanisms mha"
$C --tokens 3k --out c >/dev/null 2>&1
$C --tokens 5k --out c
