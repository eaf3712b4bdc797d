#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead train $DATA/../../configs/tiny-mqa.json --data t.txt --tokenizer $DATA/TinyStories-656K --out m \
    --steps 1 --batch 2 --seq 16 --eval-tokens 64 2>/dev/null
crosshead runs mechanism=mqa
crosshead runs mecanism=mqa
