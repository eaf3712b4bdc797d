#!/bin/bash
# Sums of 16-bit matrices are not rounded to 16 bits before they are compared.
crosshead compress $DATA/reference/qwen3 --method masa --ratio 0.3 --out small --dtype bf16 >/dev/null 2>&1
for how in '--dtype f64' '' '--cached 3'; do
  crosshead forward small --tokens 5,9,2,17,3,44,8,1,30,2 --json $how | sed 's/.*"loss": \([0-9.]*\).*/\1/'
done |
  awk 'NR == 1 {exact = $1} $1 - exact < 1e-5 && exact - $1 < 1e-5 {n++} END {print n " of " NR " agree"}'
