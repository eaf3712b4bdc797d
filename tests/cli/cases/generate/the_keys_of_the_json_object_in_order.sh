#!/bin/bash
# The keys of the JSON object, in order: what scripts rely on.
crosshead generate $DATA/TinyStories-656K --prompt "Once" --max-tokens 3 --json | grep -o '"[a-z_]*":' |
  tr -d '"\n'
