#!/bin/bash
# Two seeds show that mqa is within the tolerance: they are added, and the same command adds no more.
# A mechanism under two
# names is tied with itself, and --until-decided does not try in vain. Budgets of caches.
# unsanitized: takes long, and unit tests run the same code
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
o='--data t.txt --params 40k --heads 4 --vocab 300 --tokens 1k --seq 16 --batch 4 --eval-tokens 64'
for i in 1 2; do
  crosshead compare $o --mechanisms mha,mqa --tolerance 90 --until-decided --risk 90 --budget 1h30m \
      --out a 2>log |
    cut -d ' ' -f 1-2 | grep -E '^(Take|Loss|Each) '
  grep -c finished log
done
ls -d a/seed-*
grep -c -- '--until-decided --risk 90 --budget 5400s' a/results.json
crosshead compare $o --mechanisms mha,gqa:4 --seeds 2 --until-decided --budget 2h --out b 2>/dev/null |
  head -2
ls -d b/seed-*
b='--mechanisms mha,gqa:4 --seeds 2 --until-decided --budget 2h --out b'
for e in "$b --cache-budget 1B" "$b --cache-budget 300B" '--mechanisms mqa --out d --cache-budget 1MB --context 16 --users 100'; do
  crosshead compare $o $e --json 2>/dev/null | grep -E '"(sentence": "(No|Take)|cache_budget)'
done
for e in '--cache-budget many' '--users 3' '--cache-budget 8GB --users 3' '--risk 1'; do
  crosshead compare $o $e --out c 2>&1
done
for e in '--budget 90s' --until-decided '--until-decided --budget 90' '--until-decided --budget 0s'; do
  crosshead compare $o $e --out c 2>&1
done
true
