#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
s() {
  crosshead sweep --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 4k --seq 16 --batch 4 \
      --eval-tokens 64 --evaluations 12 "$@"
}
s --lr 1e-3,4 --jobs 2 && s --lr 1e-3,3e-3,4 && crosshead fit sweep/results.json &&
  crosshead runs kind=sweep lr=4 && s --lr 1e-3,3e-3,4 --json && ! s --tokens 8k 2>differs &&
  grep -q 'holds a sweep with --tokens' differs && test -s sweep/report.html && test -s sweep/results.json &&
  grep -q '<dt>engine</dt><dd>native, ' sweep/report.html &&
  test -s sweep/mqa/lr-0.001/model.safetensors
