#!/bin/bash
# One prompt is longer than the context: nothing is written, and the sentence says which.
printf 'One\none two three four five six\n' >p.txt
crosshead generate $DATA/TinyStories-656K --prompts p.txt --context 4
