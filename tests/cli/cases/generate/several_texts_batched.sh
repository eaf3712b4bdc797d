#!/bin/bash
# Several texts batched: each is what it is alone.
printf 'One day\nThe moon\nOnce upon a time there was\n' >p.txt
for s in 4 5; do
  for p in 'One day' 'The moon' 'Once upon a time there was'; do
    crosshead generate $DATA/TinyStories-656K --prompt "$p" --seed $s --max-tokens 12 2>err
  done
done | sort >alone
crosshead generate $DATA/TinyStories-656K --prompts p.txt --samples 2 --seed 4 --max-tokens 12 \
    --batch 4 2>figures |
  grep -v '^==>' | grep . | sort >together
grep . alone | sort | cmp - together && cat figures
