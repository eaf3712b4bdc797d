#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0' >m/model.safetensors
crosshead forward m --tokens 1
