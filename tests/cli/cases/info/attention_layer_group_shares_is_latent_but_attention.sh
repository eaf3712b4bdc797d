#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 16, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 2, "attention": {"type": "mla", "kv_lora_rank": 8,
 "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4, "layer_group_shares": "latent"}}
END
crosshead info c.json
