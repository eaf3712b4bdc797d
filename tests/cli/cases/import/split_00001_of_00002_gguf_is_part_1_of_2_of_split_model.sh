#!/bin/bash
cp $DATA/formats/split-00001-of-00002.gguf .
crosshead import split-00001-of-00002.gguf --out m
