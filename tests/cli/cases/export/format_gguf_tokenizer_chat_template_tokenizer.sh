#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
sed \
    -i '0,/{/s//{"chat_template": [{"name": "default", "template": "ONE"}, {"name": "rag", "template": "TWO"}],/' m/tokenizer_config.json
crosshead export m --format gguf --out m.gguf >/dev/null
grep -aoE 'tokenizer.chat_template[.a-z]*' m.gguf
