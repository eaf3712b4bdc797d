#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --data x --out m --engine pytorch --device cpu --shard
