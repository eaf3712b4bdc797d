#!/bin/bash
# An empty directory is free, also the one that the user is in.
mkdir d
crosshead absorb $DATA/TinyStories-656K --out d >/dev/null && mkdir e && cd e &&
  crosshead absorb $DATA/TinyStories-656K --out . >/dev/null && ls ../d . | grep -c model.safetensors
ls ..
