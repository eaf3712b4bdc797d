#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
sed -i 's/"default"/"dynamic"/' m/config.json
crosshead forward m --tokens 1,2
