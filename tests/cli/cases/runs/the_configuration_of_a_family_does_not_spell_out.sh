#!/bin/bash
# The configuration of a family does not spell out its mechanism.
sed 's/"vocab_size": [0-9]*/"vocab_size": 300/' $DATA/reference/llama_gqa/config.json >l.json
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead train l.json --data t.txt --out m --steps 2 --batch 2 --seq 16 --eval-tokens 64 \
    --runs none 2>/dev/null
mkdir cut
head -2 m/log.jsonl >cut/log.jsonl
crosshead runs add m cut >added
crosshead runs
