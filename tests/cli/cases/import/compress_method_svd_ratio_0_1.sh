#!/bin/bash
crosshead compress $DATA/reference/starcoder2 --method svd --ratio 0.1 --out c &&
  grep -c attention_output_bias c/config.json
