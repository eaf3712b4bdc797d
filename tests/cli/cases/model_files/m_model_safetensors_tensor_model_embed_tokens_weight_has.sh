#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
sed -i 's/"hidden_size": 48/"hidden_size": 96/' m/config.json
crosshead forward m --tokens 1,2
