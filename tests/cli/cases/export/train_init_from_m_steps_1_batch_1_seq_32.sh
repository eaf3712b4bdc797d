#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
echo 'USUAL {{ messages }}' >m/chat_template.jinja
head -c 20000 $DATA/../../data/tinyshakespeare.txt >t.txt
crosshead train --init-from m --data t.txt --out o --steps 1 --batch 1 --seq 32 >/dev/null 2>&1
diff m/chat_template.jinja o/chat_template.jinja && diff m/generation_config.json o/generation_config.json &&
  diff m/special_tokens_map.json o/special_tokens_map.json && echo same
