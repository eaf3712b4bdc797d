#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "gqa", "qk_norm": true,
 "qk_norm_over": "all"}, "norm_placement": "branch"}
END
crosshead export c.json --format transformers --untrained --out family &&
  test ! -e family/modeling_crosshead.py && grep -o '"model_type": *"olmo2"' family/config.json
crosshead export c.json --format transformers --untrained --own-code --out own
