#!/bin/bash
printf 'ab ab ab ab cd cd\n' >t.txt
for n in 2 3; do
  crosshead tokenizer train --data t.txt --vocab-size 400 --min-count $n --out t$n.json >/dev/null 2>&1
  grep -c '"cd"' t$n.json
done
true
