#!/bin/bash
cat >g.json <<'END'
{"model_type": "crosshead", "vocab_size": 73, "hidden_size": 32, "intermediate_size": 44,
 "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
 "attention": {"type": "mla", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
 "v_head_dim": 8, "gate_embedding_dim": 8}}
END
echo 1 2 3 4 5 6 7 2 3 1 5 >ids
for o in '--context-ids ids --expand-gates' --precompute-gates; do
  crosshead bench g.json --prompt 4 --depth 11 --tokens 2 --repeat 1 $o
done
echo 1 2 999 >ids
crosshead bench g.json --prompt 4 --depth 3 --tokens 2 --repeat 1 --context-ids ids 2>err
cat err
