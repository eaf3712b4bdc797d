#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data x --out m --steps 1 --tokens 5
