#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
echo USUAL >m/chat_template.jinja
crosshead quantize m --type q8_0 --out q >/dev/null
mkdir q/additional_chat_templates
touch q/additional_chat_templates/a.jinja
crosshead quantize m --type q4_0 --out q --force
