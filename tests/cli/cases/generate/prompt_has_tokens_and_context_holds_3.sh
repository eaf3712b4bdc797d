#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "one two three four five" --context 3
