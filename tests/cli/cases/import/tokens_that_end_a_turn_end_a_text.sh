#!/bin/bash
# Tokens that end a turn end a text: a key of their own, or a list.
crosshead import $DATA/formats/turns_eot.gguf --out m
crosshead generate m --prompt hello --temperature 0 --max-tokens 6 2>/dev/null
grep -A1 eos_token_id m/generation_config.json
