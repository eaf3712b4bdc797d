#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --images $DATA/images/shapes-cifar --out run
