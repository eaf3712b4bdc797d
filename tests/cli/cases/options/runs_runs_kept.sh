#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 1k --seq 16 --batch 4 \
    --eval-tokens 64 --hidden 32 --layers 2 --heads 4 --match all --lr 1e-3 --seeds 2 --budget 1M \
    --runs kept --out rates &&
  crosshead runs --runs kept kind=sweep config.num_attention_heads=4 config.num_hidden_layers=2 seed=2
