#!/bin/bash
# What transformers writes, taking the likeliest token each time.
crosshead generate $DATA/TinyStories-656K --prompt "Once upon a time, there was a little girl named Lily." \
    --temperature 0 --ignore-eos --max-tokens 36
