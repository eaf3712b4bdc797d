#!/bin/bash
# The report says what GGUF cannot say of a tokenizer: NFC; a space only where a text begins with
# none.
cp -r $DATA/TinyStories-656K m && tr -d '\n' <$DATA/TinyStories-656K/tokenizer.json |
  sed 's/"normalizer": {.*"pre_tokenizer": null/"normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}/; s/"normalized": true/"normalized": false/g' >m/tokenizer.json &&
  crosshead export m --format gguf --out m.gguf &&
  crosshead export m --format gguf --out m.gguf --json --force
