#!/bin/bash
# A row without a loss is left out: the loss of another column is not taken for it.
(
  echo step,tokens,loss,validation_loss
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    awk \
        -v i=$i 'BEGIN {l = 2 + 3 / sqrt(i); printf "%d,%d000,%s,%.6f\n", i, i, i % 2 ? sprintf("%.6f", l) : "", l + 0.5}'
  done
) >half.csv
crosshead fit half.csv --budget 1M
