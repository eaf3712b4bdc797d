#!/bin/bash
# Groups of layers that share the latent alone have a gate and a lookup table each.
g() {
  printf '{"model_type": "crosshead", "vocab_size": 4096, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8, "attention": {"type": "mla", "kv_lora_rank": 64, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "gate_embedding_dim": 64%s}}' "$1"
}
g ', "layer_group_size": 2' >all.json
g ', "layer_group_size": 2, "layer_group_shares": "latent"' >latent.json
for f in all latent; do
  crosshead info $f.json | grep groups
  crosshead info $f.json --json | tr -d '\n ' |
    grep -o '"\(parameters_attention\|parameters_gate_embedding\|cache_elements_per_token\)":[0-9]*' |
    tr '\n' ' '
  echo
done
