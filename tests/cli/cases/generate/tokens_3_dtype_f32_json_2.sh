#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt "The dog" --tokens 3 --dtype f32 --json 2>/dev/null
