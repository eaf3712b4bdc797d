#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
sed \
    -i '0,/{/s//{"chat_template": "C {{ x }}", "model_max_length": 1000000000000000019884624838656,/' m/tokenizer_config.json
crosshead export m --format gguf --out m.gguf >/dev/null 2>&1
grep -aoE 'C [{][{] x [}][}]' m.gguf
