#!/bin/bash
crosshead compress $DATA/reference/gpt_oss --method svd --ratio 0.1 --out c &&
  grep clamped_swiglu c/config.json
