#!/bin/bash
# The same from GGUF to a directory and back.
crosshead import $DATA/formats/turns_eot.gguf --out m >/dev/null
crosshead export m --format gguf --out again.gguf >/dev/null
crosshead import again.gguf --out n
cmp m/generation_config.json n/generation_config.json
