#!/bin/bash
head -c 5000 $DATA/formats/tied_v0.bin >cut.bin && crosshead import cut.bin --out model
