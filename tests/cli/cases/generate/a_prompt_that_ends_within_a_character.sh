#!/bin/bash
# A prompt that ends within a character: --echo shows its bytes once, the text begins with none of
# them.
printf 'x\342\202' >p
crosshead generate $DATA/TinyStories-656K --prompt-file p --temperature 0 --max-tokens 3 --echo 2>/dev/null |
  grep -o "$(printf '\357\277\275')" | wc -l
crosshead generate $DATA/TinyStories-656K --prompt-file p --temperature 0 --max-tokens 3 --json 2>/dev/null |
  grep -c "$(printf '"text": "[^"]*\357\277\275')"
true
