#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 8, "attention_multiplier": 0.3,
 "attention": {"type": "mla", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
 "v_head_dim": 8}}
END
crosshead info c.json
