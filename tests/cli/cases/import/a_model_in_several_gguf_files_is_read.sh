#!/bin/bash
# A model in several GGUF files is read from the first; the others are found by their names.
crosshead import $DATA/formats/split-00001-of-00002.gguf --out m
crosshead forward m --tokens 5,60,9,7
