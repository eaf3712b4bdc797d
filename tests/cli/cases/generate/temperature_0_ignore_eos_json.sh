#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "Once upon a time, there was a little girl named Lily." \
    --temperature 0 --max-tokens 4 --ignore-eos --json
