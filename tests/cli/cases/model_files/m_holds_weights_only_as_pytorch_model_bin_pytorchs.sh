#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
touch m/pytorch_model.bin
crosshead forward m --tokens 1
