#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "auto_map": {}, "dtype": "float32",
 "attention": {"type": "gqa", "qk_nrm": true}}
END
crosshead info c.json
