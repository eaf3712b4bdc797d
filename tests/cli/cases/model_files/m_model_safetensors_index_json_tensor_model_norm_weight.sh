#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
mv m/model.safetensors m/a.safetensors
echo '{"weight_map": {"model.norm.weight": "../a.safetensors"}}' >m/model.safetensors.index.json
crosshead forward m --tokens 1,2
