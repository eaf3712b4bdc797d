#!/bin/bash
cp -r $DATA/TinyStories-656K m
chmod -R u+w m
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n' >m/tokenizer.json
echo hello >t
crosshead tokenize m t
