#!/bin/bash
# What people give in place of a model, each said by its name.
mkdir m
cp $DATA/reference/llama_gqa/config.json m
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n' >m/model.safetensors
crosshead forward m --tokens 1
