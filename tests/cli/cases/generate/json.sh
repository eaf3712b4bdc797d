#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "One day" --max-tokens 3 --json
