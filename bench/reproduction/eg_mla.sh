#!/bin/sh
# EG-MLA, Tables 1 to 3: the embedding gate against MLA by the width of the latent, by the width of the embedding, and without
# its parts. Parameters that a token meets are equal, as in the paper: the lookup tables come on top.
# shellcheck source=bench/reproduction/common.sh
. "$(dirname "$0")/common.sh"

gated() { # NAME LATENT EMBEDDING [MORE KEYS]
  variant "$1" '"num_attention_heads": 4' \
    "{\"type\": \"mla\", \"kv_lora_rank\": $2, \"qk_nope_head_dim\": 32, \"qk_rope_head_dim\": 16, \"v_head_dim\": 32,
  \"gate_embedding_dim\": $3${4:+, $4}}"
}
for latent in 64 32 16; do
  gated "mla-c$latent" "$latent" 0
  gated "egmla-c$latent" "$latent" 32
done
claim egmla-latent "EG-MLA by the width of the latent" "$list" --match active "$@"

for embedding in 4 16 64 256; do gated "egmla-e$embedding" 16 "$embedding"; done
claim egmla-embedding "EG-MLA by the width of the embedding" "$list" --match active "$@"

gated egmla 64 32
gated egmla-no-norm 64 32 '"gate_norm": false'
gated egmla-add 64 32 '"gate_op": "add"'
claim egmla-parts "EG-MLA without its parts" "$list" --match active "$@"
