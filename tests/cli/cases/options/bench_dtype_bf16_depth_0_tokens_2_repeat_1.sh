#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
o='--data t.txt --mechanisms mqa --params 100k --tokenizer '$DATA/TinyStories-656K' --tokens 1k --seq 16 --batch 4 --eval-tokens 64 --layers 2 --schedule constant --warmup 2 --seed 7'
crosshead compare $o --lr 3e-3 --out side >/dev/null 2>&1
crosshead sweep $o --lr 3e-3 --out rates >/dev/null 2>&1
for d in side rates; do
  crosshead runs show --runs runs.sqlite kind!=train --sort id --limit 2 |
    grep -E '^(kind|seed|lr|options.schedule|options.warmup) '
done
crosshead train side/mqa/config.json --data t.txt --tokenizer $DATA/TinyStories-656K --out run --steps 2 \
    --batch 2 --seq 16 --eval-tokens 64 --schedule cosine-to-zero --compute f64 >/dev/null 2>&1
tail -2 run/log.jsonl | grep -o '"lr":[0-9.e-]*'
echo 'a cat sat' >e.txt
crosshead eval side/mqa --text e.txt --tokenizer $DATA/TinyStories-656K --json
crosshead bench side/mqa/config.json --dtype bf16 --prompt 4 --depth 0 --tokens 2 --repeat 1
