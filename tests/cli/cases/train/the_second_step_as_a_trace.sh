#!/bin/bash
# The second step as a trace: one step, its passes forward and backward and the optimizer.
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../data/tinyshakespeare.txt \
    --tokenizer $DATA/TinyStories-656K --out m --steps 3 --batch 2 --seq 16 --eval-tokens 32 \
    --trace t.json 2>/dev/null
grep -c '"name":"step"' t.json
grep -o '"name":"adamw"' t.json
grep -o '"cat":"backward"' t.json | head -1
grep -o '"name":"linear q_proj"' t.json | head -1
