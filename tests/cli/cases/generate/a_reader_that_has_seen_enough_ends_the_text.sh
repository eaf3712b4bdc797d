#!/bin/bash
# A reader that has seen enough ends the text, which is no failure.
set -o pipefail
crosshead generate $DATA/TinyStories-656K --prompt "One day" --ignore-eos --max-tokens 400 2>/dev/null |
  head -c 5
