#!/bin/bash
# The native engine shares a run between ranks of mpirun, not between devices.
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE --out m --ranks-per-run 2
