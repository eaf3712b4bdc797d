#!/bin/bash
crosshead plan mha --layers 2 --hidden 64 --heads 4 --vocab 512 --match active --context 64 --dtype q8_0 \
    --cache-dtype k=q8_0,v=q4_0 --device l4
