#!/bin/bash
# The spectral parametrisation sets the initial weights, so --init needs the standard one; a file of
# configuration keeps its own.
crosshead compare --data $DATA/../../LICENSE --mechanisms mha --params 60k --tokens 2k --seq 32 \
    --init fan_in --out c
ls -A
echo end
