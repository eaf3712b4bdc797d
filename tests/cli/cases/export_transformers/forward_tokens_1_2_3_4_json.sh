#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "mla", "kv_lora_rank": 6,
 "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4, "gate_embedding_dim": 3}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead export run --format transformers --out out && crosshead forward out --tokens 1,2,3,4 --json >a &&
  crosshead forward run --tokens 1,2,3,4 --json >b && cmp a b &&
  grep -c 'kv_gate_embed = nn.Embedding' out/modeling_crosshead.py &&
  grep -o '^class .*Attention' out/modeling_crosshead.py && grep AutoModelForCausalLM out/config.json
! grep -E '#[?]|knock|head_mix' out/modeling_crosshead.py && test -s out/configuration_crosshead.py &&
  test -s out/tokenizer.json && test -s out/model.safetensors
