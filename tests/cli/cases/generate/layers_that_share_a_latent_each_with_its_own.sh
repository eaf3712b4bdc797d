#!/bin/bash
# Layers that share a latent, each with its own gate: tabulated, folded and in 8 bits they go on as
# they are.
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 32, "intermediate_size": 32,
 "num_hidden_layers": 3, "num_attention_heads": 2, "attention": {"type": "mla", "kv_lora_rank": 8,
 "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "gate_embedding_dim": 4,
 "layer_group_size": 2, "layer_group_shares": "latent", "knocking": {"type": "linear", "on": ["q",
 "k", "v"]}}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 20 --batch 2 --seq 16 --lr 5e-3 --out run >/dev/null 2>&1
g() {
  crosshead generate $1 --prompt 12 --max-tokens 12 --temperature 1 --seed 3 $2 2>/dev/null
}
crosshead absorb run --out plain >/dev/null
crosshead quantize run --type q8_0 --out small >/dev/null
g run >a
g run --precompute-gates >b
g plain >c
g plain --precompute-gates >d
cmp a b && cmp a c && cmp a d && grep -q '[0-9]' a && g small >e && g small --precompute-gates | cmp - e &&
  grep -q '[0-9]' e && echo same
