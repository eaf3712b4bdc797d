#!/bin/bash
# crosshead bench: rows, JSON, and what wrong use gets.
crosshead bench $DATA/TinyStories-656K --prompt 8,16 --depth 0,64 --batch 1,2 --tokens 2 --repeat 1 --profile
