#!/bin/bash
gunzip -c $DATA/images/shapes-cifar/test_batch.bin.gz | head -c 300000 >short.bin
crosshead train $DATA/../../configs/tiny-vit.json --data short.bin --out run
