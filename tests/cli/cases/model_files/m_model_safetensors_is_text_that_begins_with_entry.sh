#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
echo 'Entry not found' >m/model.safetensors
crosshead forward m --tokens 1
