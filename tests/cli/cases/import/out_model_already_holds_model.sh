#!/bin/bash
crosshead import $DATA/formats/tied_v0.bin --out model >/dev/null &&
  crosshead import $DATA/formats/untied_v0.bin --out model
