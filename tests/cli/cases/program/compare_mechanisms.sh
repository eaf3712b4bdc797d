#!/bin/bash
for m in gqa8 GQA-8 gqa_8 kha-mlp+masa-qkvo4 mhla mla8x; do
  crosshead compare --data $DATA/../../LICENSE --mechanisms $m 2>&1
done
exit 0
