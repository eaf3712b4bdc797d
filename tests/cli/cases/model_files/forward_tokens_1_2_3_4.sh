#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
sed -i 's/"llama"/"mistral"/; s/"vocab_size"/"sliding_window": 4, &/' m/config.json
crosshead forward m --tokens 1,2,3,4
