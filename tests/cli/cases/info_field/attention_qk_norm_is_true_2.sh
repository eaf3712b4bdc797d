#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 8,
 "attention": {"type": "collaborative", "shared_qk_dim": 16, "qk_norm": true}}
END
crosshead info c.json
