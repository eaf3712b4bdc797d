#!/bin/bash
echo "some text that is long enough to be looked at as if it were a database of someone" >runs.sqlite
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../data/tinyshakespeare.txt --out m \
    --steps 2
