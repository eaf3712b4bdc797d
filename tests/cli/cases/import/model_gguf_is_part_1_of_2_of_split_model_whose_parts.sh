#!/bin/bash
cp $DATA/formats/split-00001-of-00002.gguf model.gguf
crosshead import model.gguf --out m
