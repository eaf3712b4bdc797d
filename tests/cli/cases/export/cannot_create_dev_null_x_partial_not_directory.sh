#!/bin/bash
crosshead export $DATA/TinyStories-656K --format gguf --out /dev/null/x
