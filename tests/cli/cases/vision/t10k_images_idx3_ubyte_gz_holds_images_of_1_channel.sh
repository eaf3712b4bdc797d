#!/bin/bash
crosshead train $DATA/../../configs/tiny-vit.json --images $DATA/images/shapes-idx --out run
