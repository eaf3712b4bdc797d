#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
touch m/model-00001-of-00002.safetensors
crosshead forward m --tokens 1
