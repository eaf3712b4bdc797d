#!/bin/bash
crosshead export $DATA/TinyStories-656K --format gguf --dtype q8_0 --out model.gguf --json &&
  crosshead import model.gguf --out back && test -s back/tokenizer.json
