#!/bin/bash
crosshead train $DATA/../../configs/tiny-vit.json --images $DATA/images/shapes-cifar --out run --epochs 2 \
    --steps 5
