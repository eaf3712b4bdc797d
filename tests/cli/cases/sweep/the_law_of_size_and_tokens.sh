#!/bin/bash
# The law of size and tokens: from tables with and without a heading, from runs; what it is not for.
for n in 1 2 4 8; do
  for d in 20 40 80 160; do
    awk -v n=$n \
        -v d=$d 'BEGIN {printf "%d000000, %d000000, %.6f\n", n, d, exp(0.4 * log(exp(0.75 * log(40 / n)) + 500 / d))}'
  done
done >m.csv
crosshead fit m.csv --law size --params 10M --budget 1G
(
  echo tokens,loss,seed,parameters
  awk -F, '{print $2 "," $3 ",1," $1}' m.csv
) >h.csv
crosshead fit h.csv --law size --json
