#!/bin/bash
crosshead compare --images $DATA/images/shapes-idx --mechanisms mha,masa-qkvo,mfa --params 30k --layers 3 \
    --heads 4 --epochs 1 --out side &&
  crosshead compare --images $DATA/images/shapes-idx --mechanisms mha,masa-qkvo,mfa --params 30k --layers 3 \
    --heads 4 --epochs 1 --out side --json &&
  crosshead eval side/masa-qkvo --images $DATA/images/shapes-idx &&
  grep -c 'Accuracy against parameters of attention' side/report.html && test -s side/mfa/model.safetensors
