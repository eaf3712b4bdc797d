#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type bf16 --out half &&
  crosshead quantize half --type q8_0 --out small >/dev/null && crosshead info half --json
