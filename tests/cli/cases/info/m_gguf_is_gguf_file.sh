#!/bin/bash
crosshead export $DATA/TinyStories-656K --format gguf --out m.gguf >/dev/null
crosshead info m.gguf
