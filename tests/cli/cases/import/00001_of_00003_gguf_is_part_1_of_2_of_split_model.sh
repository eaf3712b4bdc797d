#!/bin/bash
cp $DATA/formats/split-00001-of-00002.gguf a-00001-of-00003.gguf
crosshead import a-00001-of-00003.gguf --out m
