#!/bin/bash
# Names of mechanisms in any case; a number without its colon; no list behind a suggestion.
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead compare --data t.txt --mechanisms MHA,Gqa:2,KHA-MLP+XSA --params 60k --tokens 2k --seq 32 \
    --dry-run --out c |
  cut -d' ' -f1
