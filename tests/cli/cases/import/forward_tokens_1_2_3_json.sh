#!/bin/bash
crosshead import $DATA/formats/untied_v0.bin --out model && crosshead info model &&
  crosshead forward model --tokens 1,2,3 --json && test -s model/config.json &&
  test -s model/model.safetensors
