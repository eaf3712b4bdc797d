#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q8_0 --out small >/dev/null &&
  crosshead quantize small --type q4_0 --out smaller
