#!/bin/bash
crosshead export $DATA/TinyStories-656K --format gguf --untrained --out out
