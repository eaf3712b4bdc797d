#!/bin/bash
crosshead compare --images $DATA/images/shapes-cifar --image-size 48 --mechanisms mha --params 20k \
    --layers 1 --hidden 16 --heads 2 --epochs 1 --out side
