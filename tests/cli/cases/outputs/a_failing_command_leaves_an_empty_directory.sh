#!/bin/bash
# A failing command leaves an empty directory empty.
mkdir d
(
  ulimit -f 100
  crosshead quantize $DATA/TinyStories-656K --type q8_0 --out d 2>/dev/null
)
ls -A d | wc -l
