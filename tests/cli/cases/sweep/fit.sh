#!/bin/bash
(
  echo "step,lr,validation_loss"
  seq 1 20 | awk '{printf "%d,0.1,%.6f\n", $1, (4/$1)^0.5 + 2}'
) >c.csv
crosshead fit c.csv
