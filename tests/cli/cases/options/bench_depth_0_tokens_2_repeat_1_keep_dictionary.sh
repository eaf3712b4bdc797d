#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method masa --ratio 0.1 --groups 1 --atoms 1 \
    --out masa >/dev/null 2>&1 &&
  crosshead info masa --json &&
  crosshead bench masa --prompt 4 --depth 0 --tokens 2 --repeat 1 --keep-dictionary
