#!/bin/bash
printf '{"text": "a"}\n{"text": 7}\n' >d
crosshead train $DATA/../../configs/tiny-gqa.json --data d --out o
