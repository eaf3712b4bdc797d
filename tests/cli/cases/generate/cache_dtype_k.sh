#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "One day" --max-tokens 5 \
    --cache-dtype k=q8_0,v=q4_0 2>&1 >/dev/null |
  grep cache
