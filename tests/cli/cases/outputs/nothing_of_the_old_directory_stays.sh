#!/bin/bash
# Nothing of the old directory stays.
m=$DATA/TinyStories-656K
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead train $DATA/../../configs/tiny-gqa.json --data t.txt --tokenizer $m --steps 1 --batch 2 --seq 16 \
    --eval-tokens 64 --out d >/dev/null 2>&1
ls d | grep -c -e checkpoint -e log
crosshead quantize $m --type q8_0 --out d 2>err
cat err
crosshead quantize $m --type q8_0 --out d --force && ls d | grep -c -e checkpoint -e log -e data
true
