#!/bin/bash
crosshead import $DATA/formats/turns_eos_ids.gguf --out m
crosshead generate m --prompt hello --temperature 0 --max-tokens 6 2>/dev/null
