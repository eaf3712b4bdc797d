#!/bin/bash
C="crosshead sweep --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --batch 4 --mechanisms mha"
$C --ranks-per-run 2 --out s
$C --micro-batch 3 --out s
ls -A
