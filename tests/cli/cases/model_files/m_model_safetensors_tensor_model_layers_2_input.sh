#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' m/config.json
crosshead forward m --tokens 1,2
