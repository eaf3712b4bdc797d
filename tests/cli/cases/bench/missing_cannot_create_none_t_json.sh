#!/bin/bash
crosshead bench $DATA/TinyStories-656K --prompt 8 --depth 0 --tokens 1 --repeat 1 --trace none/t.json
