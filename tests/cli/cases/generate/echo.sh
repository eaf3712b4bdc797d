#!/bin/bash
printf 'One day a dog' | crosshead generate $DATA/TinyStories-656K --prompt-file - --max-tokens 3 --echo
