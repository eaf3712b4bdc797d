#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
sed -i '0,/{/s//{"chat_template": "OF THE CONFIG {{ x }}",/' m/tokenizer_config.json
crosshead export m --format gguf --out m.gguf >/dev/null
crosshead import m.gguf --out n >/dev/null
grep chat_template n/tokenizer_config.json
