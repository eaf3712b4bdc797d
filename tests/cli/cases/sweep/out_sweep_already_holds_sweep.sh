#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 4k --seq 16 --batch 4 \
    --lr 1e-3 >/dev/null 2>&1
crosshead sweep --data t.txt --coordinate-check
