#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
echo '{"weight_map": {"a": "model-00002-of-00002.safetensors"}}' >m/model.safetensors.index.json
crosshead forward m --tokens 1
