#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --init-from $DATA/TinyStories-656K --data x --out m
