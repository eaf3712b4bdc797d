#!/bin/bash
mkdir m
cp $DATA/reference/llama_gqa/config.json m
touch m/pytorch_model-00001-of-00002.bin m/pytorch_model.bin.index.json m/training_args.bin
crosshead forward m --tokens 1
