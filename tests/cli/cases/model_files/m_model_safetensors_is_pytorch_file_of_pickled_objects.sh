#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
printf 'PK\3\4aaaaaaaa' >m/model.safetensors
crosshead forward m --tokens 1
