#!/bin/bash
# Several texts of standard input, up to the end of the context; sample 2 is what --seed 1 alone
# writes.
printf 'The dog\n' |
  crosshead generate $DATA/TinyStories-656K --prompts - --samples 2 --context 9 --max-tokens 0 --ignore-eos \
    --echo --batch 1 2>figures |
  tail -n 1 >second
crosshead generate $DATA/TinyStories-656K --prompt 'The dog' --seed 2 --context 9 --max-tokens 0 \
    --ignore-eos --echo 2>/dev/null |
  cmp - second && cat figures
