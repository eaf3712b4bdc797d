#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
mkdir m/additional_chat_templates
echo 'USUAL {{ messages }} é "' >m/chat_template.jinja
echo TOOLS >m/additional_chat_templates/tool_use.jinja
crosshead export m --format gguf --out m.gguf >/dev/null
grep -ac 'USUAL {{ messages }} é "' m.gguf
crosshead import m.gguf --out n >/dev/null
cat n/tokenizer_config.json
