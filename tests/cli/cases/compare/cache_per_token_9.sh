#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
C="crosshead compare --data $DATA/../../LICENSE --params 100k --tokens 2k --seq 32 --batch 4 --match cache"
$C --cache-per-token 128 --mechanisms gqa,mla,mea --out c 2>/dev/null
$C --cache-per-token 128 --mechanisms mha,mla --out d
echo $?
$C --cache-per-token 20 --mechanisms gqa --out d
echo $?
$C --out d
echo $?
crosshead compare --data $DATA/../../LICENSE --cache-per-token 9 --out d
echo $?
ls
