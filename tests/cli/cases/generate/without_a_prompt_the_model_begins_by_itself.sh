#!/bin/bash
# Without a prompt the model begins by itself.
crosshead generate $DATA/TinyStories-656K --max-tokens 3
