#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "Once upon a time" --max-tokens 10 --seed 1
