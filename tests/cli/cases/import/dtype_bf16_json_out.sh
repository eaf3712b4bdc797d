#!/bin/bash
crosshead import $DATA/formats/tied_v2.bin --dtype bf16 --json --out model && cat model/config.json
