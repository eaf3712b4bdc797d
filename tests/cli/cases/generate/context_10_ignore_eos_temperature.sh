#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "The dog" --context 10 --max-tokens 0 --ignore-eos \
    --temperature 0
