#!/bin/bash
cp -r $DATA/reference/llama_gqa m
chmod -R u+w m
rm m/config.json
crosshead forward m --tokens 1,2
