#!/bin/bash
# A symbolic link to a directory is as good as the directory, also with --force.
cp -r $DATA/TinyStories-656K m
ln -s m link
crosshead absorb $DATA/reference/qwen3 --out link --force >/dev/null
test -L link && grep model_type m/config.json
ls
