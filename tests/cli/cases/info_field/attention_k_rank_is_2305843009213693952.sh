#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 8, "num_key_value_heads": 8,
 "attention": {"type": "tpa", "q_rank": 2, "k_rank": 2305843009213693952, "v_rank": 1}}
END
crosshead info c.json
