#!/bin/bash
sweep() {
  crosshead sweep --data "$DATA/../../LICENSE" --params 60k --tokens 2k --seq 32 --batch 4 --mechanisms mha --lr 1e-3,2e-3,3e-3 --out s --jobs 1
}
sweep >first 2>&1
rm -r s/results.json s/mha/lr-0.00[13]
touch s/mha/lr-0.003 # a file where the last run needs a directory
sweep 2>errors || echo "status $?"
tail -n 3 errors
grep -o '"lr": 0.00[0-9]*' s/results.json | sort -u
