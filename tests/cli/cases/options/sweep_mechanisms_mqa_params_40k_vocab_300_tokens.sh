#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 1k --seq 16 --batch 4 \
    --eval-tokens 64 --lr 1e-3 --parametrization standard --init deepseek >/dev/null 2>&1
cat sweep/mqa/lr-0.001/config.json
