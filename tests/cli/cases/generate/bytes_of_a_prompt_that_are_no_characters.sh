#!/bin/bash
# Bytes of a prompt that are no characters are replaced where it is repeated, in JSON too.
printf 'One \377 day\n' >p.txt
for how in prompt-file prompts; do
  crosshead generate $DATA/TinyStories-656K --$how p.txt --max-tokens 3 --echo --json |
    grep -o '"text": "One [^d]*day'
done
