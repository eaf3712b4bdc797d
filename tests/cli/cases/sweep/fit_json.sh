#!/bin/bash
for i in $(seq 1 40); do
  echo "$i $((i * 1000000)) 1"
done | awk '{printf "%d,%.6f\n", $2, (4e8/$2)^0.35 + 1.9}' >c.csv
crosshead fit c.csv --budget 1G
crosshead fit c.csv --json
