#!/bin/bash
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
c() {
  crosshead compare --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 1k --seq 16 --batch 4 \
      --eval-tokens 64 --parametrization standard --out "$@" >/dev/null
}
c by --init fan_in 2>/dev/null && c std 2>/dev/null && grep -h '"init"' by/mqa/config.json std/mqa/config.json
c by --init deepseek
