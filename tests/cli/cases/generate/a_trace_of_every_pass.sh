#!/bin/bash
# A trace of every pass: the prompt's and each token's.
crosshead generate $DATA/TinyStories-656K --prompt Once --max-tokens 3 --ignore-eos \
    --trace t.json >/dev/null 2>&1
grep -c '"cat":"span"' t.json
grep -o '"name":"attend"' t.json | head -1
