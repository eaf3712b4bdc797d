#!/bin/bash
head -c 30000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead config mha+cla --params 40k --layers 2 --seq 32 >c.json && crosshead train c.json --data t.txt --steps 1 --batch 1 --out m >/dev/null 2>&1 || exit 1
crosshead compress m --method mea --component-heads 2 --out o
