#!/bin/bash
crosshead bench $DATA/TinyStories-656K --prompt 4 --depth 0 --tokens 2 --repeat 1 --threads 3
