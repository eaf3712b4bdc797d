#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "One day a dog ran to the park" --context 3
