#!/bin/bash
crosshead plan mha,mla --params 10M --context 4k --users 64 --memory 1GB \
    --device "name=mine,gb/s=900,flop/s=120T,memory=48GB;name=other,gb/s=90,flop/s=1T,memory=2GiB,reading=90,computing=70"
