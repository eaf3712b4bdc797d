#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 4k --seq 16 --batch 4 --eval-tokens 64 --evaluations 12 \
    --lr 1e-3 --schedule cosine 2>/dev/null && grep -q '"no_law": "the learning rate falls during the run"' sweep/results.json &&
  ! grep -q 'Losses are extrapolated' sweep/report.html
