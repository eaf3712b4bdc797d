#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
sed 's/"num_key_value_heads": 1,//; s/"gqa"/"gqa", "num_key_heads": 1/' $DATA/../../configs/tiny-mqa.json >c.json
crosshead train c.json --data t.txt --tokenizer $DATA/TinyStories-656K --out m --steps 1 --batch 2 --seq 16 \
    --eval-tokens 64 >/dev/null 2>&1
crosshead runs mechanism=gqa
