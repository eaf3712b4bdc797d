#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "The dog" --seed 3 --max-tokens 20 2>/dev/null >a
printf 'The dog\n' |
  crosshead generate $DATA/TinyStories-656K --prompt-file - --seed 3 --max-tokens 20 2>/dev/null >b
cmp a b && echo same
