#!/bin/bash
crosshead train $DATA/../../configs/tiny-gqa.json --out m
