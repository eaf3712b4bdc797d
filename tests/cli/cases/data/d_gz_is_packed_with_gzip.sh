#!/bin/bash
echo some text | gzip >d.gz
crosshead train $DATA/../../configs/tiny-gqa.json --data d.gz --out o
