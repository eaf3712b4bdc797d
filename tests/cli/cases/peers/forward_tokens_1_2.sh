#!/bin/bash
peers=$DATA/../../bench/peers
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
 "max_position_embeddings": 64, "tie_word_embeddings": true, "attention": {"type": "gqa"}}
END
command -v python3 >/dev/null || {
  echo 'no python3'
  exit 77
}
crosshead info c.json --json | grep -o '"parameters_total": [0-9]*' | head -1 >wanted
for type in f32 f16 bf16 q8_0 q4_0; do
  python3 $peers/random_model.py c.json m.gguf --type $type &&
    crosshead import m.gguf --keep-blocks --out $type >/dev/null && crosshead info $type --json |
    grep -o '"parameters_total": [0-9]*' | head -1 | cmp - wanted &&
    crosshead forward $type --tokens 1,2 >/dev/null && rm m.gguf
done
ls -d f32 f16 bf16 q8_0 q4_0 | tr '\n' ' '
