#!/bin/bash
crosshead sweep --data $DATA/../../LICENSE --params 60k --tokens 2k --seq 32 --mechanisms mha --lr 1e-3 \
    --match cache --cache-per-token 99 --out s
ls -A
