#!/bin/bash
# Several ends of config.json, of which the one that is written has room for the first.
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
rm m/generation_config.json
sed -i 's/"eos_token_id": [0-9]*/"eos_token_id": [2, 7]/' m/config.json
crosshead quantize m --type q8_0 --out q >/dev/null
crosshead export m --format gguf --out g.gguf >/dev/null
crosshead import g.gguf --out i >/dev/null
tr -d ' \n' <q/generation_config.json
echo
grep -A3 eos_token_id i/generation_config.json
