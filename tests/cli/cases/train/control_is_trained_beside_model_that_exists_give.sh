#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --control $DATA/TinyStories-656K --data x --out m
