#!/bin/bash
sweep() {
  crosshead sweep --data "$DATA/../../LICENSE" --params 60k --tokens 2k --seq 32 --batch 4 --mechanisms mha --lr 1e-3,2e-3 --out s
}
sweep >first 2>&1
rm -r s/results.json s/mha
mkdir s/mha
touch s/mha/lr-0.001 # a file where the first run needs a directory
sweep 2>errors || echo "status $?"
tail -n 3 errors
