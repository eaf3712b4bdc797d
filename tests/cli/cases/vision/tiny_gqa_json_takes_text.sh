#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --mechanisms mha,$DATA/../../configs/tiny-gqa.json \
    --out side
