#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/model.safetensors m
crosshead forward m --tokens 1
