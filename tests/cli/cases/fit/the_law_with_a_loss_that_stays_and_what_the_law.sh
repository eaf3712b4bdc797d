#!/bin/bash
# The law with a loss that stays, and what the law without one says of its losses.
for n in 1 3 10 30 100; do
  for d in 1 3 10 30 100 300; do
    awk -v n=$n \
        -v d=$d 'BEGIN {printf "%d000000,%d000000,%.6f\n", 10 * n, 100 * d, 1.69 + 406.4 * exp(-.34 * log(n * 1e7)) + 410.7 * exp(-.28 * log(d * 1e8))}'
  done
done >m.csv
crosshead fit m.csv --law chinchilla --params 70G --budget 1.4T
crosshead fit m.csv --law size
crosshead fit m.csv --law chinchilla --json | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(round(r["E"]["value"], 2), round(r["alpha"]["value"], 3), round(r["A"]["value"], -1), r["warnings"])
'
crosshead fit m.csv --law size --json | grep -c 'does not fit'
