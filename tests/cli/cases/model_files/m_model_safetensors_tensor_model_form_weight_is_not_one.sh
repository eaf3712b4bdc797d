#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
sed -i 's/model.norm.weight/model.form.weight/' m/model.safetensors
crosshead forward m --tokens 1,2
