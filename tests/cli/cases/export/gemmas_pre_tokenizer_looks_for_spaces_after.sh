#!/bin/bash
# Gemma's pre-tokenizer looks for spaces after the normaliser has taken all of them.
cp -r $DATA/TinyStories-656K m && crosshead export m --format gguf --out a.gguf >/dev/null &&
  sed 's/"pre_tokenizer": null/"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false}/' $DATA/TinyStories-656K/tokenizer.json >m/tokenizer.json &&
  ! cmp -s m/tokenizer.json $DATA/TinyStories-656K/tokenizer.json &&
  crosshead export m --format gguf --out b.gguf >/dev/null && cmp a.gguf b.gguf
