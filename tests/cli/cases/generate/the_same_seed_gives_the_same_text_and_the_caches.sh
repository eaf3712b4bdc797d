#!/bin/bash
# The same seed gives the same text, and the cache's type is said.
for i in 1 2; do
  crosshead generate $DATA/TinyStories-656K --prompt "One day" --max-tokens 20 --seed 5 \
      --cache-dtype bf16 2>err >$i
done
cmp 1 2 && cat err
