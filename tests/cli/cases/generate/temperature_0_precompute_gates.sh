#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 2, "attention": {"type": "mla", "kv_lora_rank": 8,
 "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "gate_embedding_dim": 4}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead generate run --prompt 12 --max-tokens 8 --temperature 0 >a 2>/dev/null
crosshead generate run --prompt 12 --max-tokens 8 --temperature 0 --precompute-gates >b 2>/dev/null &&
  [ -s a ] && cmp a b && echo same
