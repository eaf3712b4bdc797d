#!/bin/bash
# A run whose loss becomes infinite does not end the comparison. Its model is left out of the choice, also when the
# finished comparison is repeated.
C="crosshead compare --data $DATA/../../LICENSE --params 60k --tokens 10k --seq 32 --batch 4 --parametrization standard \
  --mechanisms gdn,mqa --lr gdn=10,mqa=1e-3 --out c"
$C 2>&1 | grep -E '^(gdn|mqa): |^Take|^gdn  |^Warning: gdn'
grep -A 12 '"name": "gdn"' c/results.json | grep -o '"validation_loss": null' | head -1
$C 2>&1 | grep -E '^(gdn|mqa): |^Take'
