#!/bin/bash
mkdir m
cp $DATA/TinyStories-656K/config.json m
crosshead train $DATA/../../configs/tiny-gqa.json --data x --out m --resume
