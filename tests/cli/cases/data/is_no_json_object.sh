#!/bin/bash
printf '[{"text": "a"}]\n' >d.json
crosshead train $DATA/../../configs/tiny-gqa.json --data d.json --out o
