#!/bin/bash
# compare and sweep continue their own job, refuse another's, and begin anew with --force.
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
o="--data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 500 --seq 16 --batch 4 --eval-tokens 64 \
  --parametrization standard --out j"
c() {
  crosshead compare $o "$@" >/dev/null 2>err
  echo "compare $?"
}
s() {
  crosshead sweep $o --lr 1e-3 "$@" >/dev/null 2>err
  echo "sweep $?"
}
c
c
c --init fan_in
cat err
s
cat err
c --init fan_in --force
grep '"init"' j/mqa/config.json
s --force
s
ls j
