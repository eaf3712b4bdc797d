#!/bin/bash
crosshead config gqa:2 --params 60k --vocab 300 --seq 32 >c.json
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead train c.json --data t.txt --steps 1 --batch 2 --seq 32 --out m >/dev/null 2>&1
ls m
