#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q8_0 --out small >/dev/null &&
  crosshead export small --format gguf --dtype q8_0 --out small.gguf
