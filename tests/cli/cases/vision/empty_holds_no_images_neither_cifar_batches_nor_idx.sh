#!/bin/bash
mkdir empty
crosshead train $DATA/../../configs/tiny-vit.json --images empty --out run
