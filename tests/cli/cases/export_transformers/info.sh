#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 50304, "hidden_size": 4096, "intermediate_size": 11008,
 "num_hidden_layers": 32, "num_attention_heads": 28, "head_dim": 256, "attention": {"type": "mfa",
 "qk_norm": true}}
END
crosshead export c.json --format transformers --untrained --out out && test ! -e out/model.safetensors &&
  grep -o '^class MultiMatrix[A-Za-z]*' out/modeling_crosshead.py && crosshead info out &&
  test -s out/config.json
