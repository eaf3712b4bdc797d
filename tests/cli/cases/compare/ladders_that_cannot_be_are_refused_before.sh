#!/bin/bash
# Ladders that cannot be are refused before anything is trained.
C="crosshead compare --data $DATA/../../LICENSE --tokens 2k --seq 32 --batch 4 --params 60k --out c"
$C --ladder 30k,40k
$C --ladder 30k,40k,x
$C --ladder
$C --ladder 30k,40k,50k --layers 2
$C --target 1M
$C --ladder 30k,40k,50k --until-decided --budget 5s
$C --ladder 30k,40k,50k --mechanisms $DATA/../../configs/tiny-gqa.json
ls -A
echo end
