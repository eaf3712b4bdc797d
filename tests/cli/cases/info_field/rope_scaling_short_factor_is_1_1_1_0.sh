#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 4, "num_attention_heads": 8, "head_dim": 8,
 "rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1, 1, 0], "long_factor": [1, 1, 1,
 1], "original_max_position_embeddings": 8}}
END
crosshead info c.json
