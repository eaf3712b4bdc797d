#!/bin/bash
cp -r $DATA/TinyStories-656K m &&
  sed 's/"String": " "/"String": "q"/' $DATA/TinyStories-656K/tokenizer.json >m/tokenizer.json &&
  crosshead export m --format gguf --out m.gguf
