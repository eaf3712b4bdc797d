#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "attention": {"type": "gqa", "knocking": {"type": "linear", "on": ["q", "v"]}}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead export run --format gguf --out model.gguf && crosshead export run --format safetensors --out kept &&
  crosshead info kept && test -s kept/tokenizer.json
