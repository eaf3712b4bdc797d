#!/bin/bash
(
  echo "tokens,loss"
  seq 1 20 | awk '{printf "%d,%.6f\n", $1, ($1 < 4 ? 9 : (4/$1)^0.5 + 2)}'
) >c.csv
crosshead fit c.csv --skip 3
