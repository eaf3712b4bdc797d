#!/bin/bash
# Those whose work here is too small for a team take the option too.
m=$DATA/TinyStories-656K
crosshead absorb $m --out a --threads 2 && crosshead import $m --out i --threads 2 &&
  crosshead export $m --format safetensors --out e --threads 2
