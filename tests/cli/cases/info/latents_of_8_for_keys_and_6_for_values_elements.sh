#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "mla", "k_lora_rank": 8,
 "v_lora_rank": 6, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4}}
END
crosshead info c.json
