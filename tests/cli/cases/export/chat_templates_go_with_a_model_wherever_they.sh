#!/bin/bash
# Chat templates go with a model, wherever they are.
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
mkdir m/additional_chat_templates
echo 'USUAL {{ messages }}' >m/chat_template.jinja
echo TOOLS >m/additional_chat_templates/tool_use.jinja
for how in "quantize m --type q8_0" "absorb m" "import m" "export m --format safetensors" "export m --format transformers" "compress m --method svd --ratio 0.2 --data-free"; do
  crosshead $how --out o >/dev/null 2>&1 || echo "$how failed"
  diff m/chat_template.jinja o/chat_template.jinja &&
    diff -r m/additional_chat_templates o/additional_chat_templates &&
    diff m/tokenizer_config.json o/tokenizer_config.json &&
    diff m/special_tokens_map.json o/special_tokens_map.json &&
    diff m/generation_config.json o/generation_config.json && echo same
  rm -r o
done | sort | uniq -c
