#!/bin/bash
# Without a prompt the model begins a text of its own.
crosshead generate $DATA/TinyStories-656K --max-tokens 2 --json
