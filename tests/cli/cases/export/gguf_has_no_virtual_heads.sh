#!/bin/bash
# GGUF has no virtual heads: they are written out only where that is wanted, and it says what the
# cache becomes.
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --out small >/dev/null 2>&1
crosshead export small --format gguf --out a.gguf
echo $?
ls *.gguf 2>/dev/null
crosshead export small --format gguf --expand-heads --out a.gguf
crosshead export small --format gguf --expand-heads --out b.gguf --json | tr -d '\n '
cmp a.gguf b.gguf && echo same
crosshead export small --format safetensors --expand-heads --out c
echo end
