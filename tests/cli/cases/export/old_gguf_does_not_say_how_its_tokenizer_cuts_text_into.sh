#!/bin/bash
# A GGUF file that names no pre-tokenizer is refused, not read as GPT-2's.
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead export run --format gguf --out m.gguf >/dev/null &&
  sed 's/tokenizer.ggml.pre/tokenizer.ggml.prX/' m.gguf >old.gguf &&
  crosshead import m.gguf --out a >/dev/null && crosshead import old.gguf --out b
