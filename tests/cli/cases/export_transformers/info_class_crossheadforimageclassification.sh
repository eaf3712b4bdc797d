#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead_vit", "image_size": 32, "patch_size": 4, "num_classes": 10,
 "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
 "attention": {"type": "gqa"}}
END
crosshead export c.json --format transformers --untrained --out out &&
  grep -o '^class CrossheadFor[A-Za-z]*' out/modeling_crosshead.py && crosshead info out
