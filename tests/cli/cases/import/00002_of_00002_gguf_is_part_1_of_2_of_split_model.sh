#!/bin/bash
cp $DATA/formats/split-00001-of-00002.gguf a-00001-of-00002.gguf
cp a-00001-of-00002.gguf a-00002-of-00002.gguf
crosshead import a-00001-of-00002.gguf --out m
