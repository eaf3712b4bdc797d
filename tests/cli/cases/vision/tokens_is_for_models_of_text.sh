#!/bin/bash
crosshead train $DATA/../../configs/tiny-vit.json --images $DATA/images/shapes-cifar --out run --tokens 1M
