#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
c() {
  crosshead sweep --data t.txt --coordinate-check --mechanisms mqa,mla --widths 32,64 --vocab 300 --layers 2 \
      --seq 16 --batch 2 --seeds 1 "$@"
}
c --lr 1e-3 && c --json --parametrization standard --out b >b.json && python3 -c '
import json
r = json.load(open("b.json"))
assert r == json.load(open("b/results.json"))
print(r["widths"], r["steps"], r["training"]["lr"], r["parametrization"], len(r["mechanisms"]))
' &&
  ! c 2>again && grep -q 'already holds a coordinate check; --force replaces it' again && c --force >/dev/null &&
  test -s sweep/report.html && test -s sweep/results.json && test -s b/report.html
