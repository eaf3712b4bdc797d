#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data x --out m --batch 4 --micro-batch 3
