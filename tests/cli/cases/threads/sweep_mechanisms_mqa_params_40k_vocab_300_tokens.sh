#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 500 --seq 16 --batch 4 \
    --eval-tokens 64 --compute f32 --lr 1e-3 --jobs 1 --threads 3
