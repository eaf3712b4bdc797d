#!/bin/bash
touch model.gguf && crosshead export $DATA/TinyStories-656K --format gguf --out model.gguf
