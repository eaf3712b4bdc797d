#!/bin/sh
# MEA, Figures 2 to 7: against multi-head attention with and without head norm, modified talking heads (MEA without head norm)
# and differential attention; the largest stable learning rate of each; and half of the component heads.
# shellcheck source=bench/reproduction/common.sh
. "$(dirname "$0")/common.sh"

heads='"num_attention_heads": 4'
variant mha-head-norm "$heads" '{"type": "gqa", "head_norm": true}'
variant mea-no-norm "$heads" '{"type": "gqa", "head_mix": {"on": ["k", "v"], "component_heads": 4}}'
variant diff-per-pair "$heads" '{"type": "diff", "diff_lambda": "per_pair"}'
variant diff-no-norm "$heads" '{"type": "diff", "diff_lambda": "per_pair", "head_norm": false}'
variants=$list
claim mea "MEA against its ablations and differential attention" "mha,mea,mea-virtual:2,$variants" "$@"

echo "== The largest stable learning rate"
"$crosshead" sweep --data "$DATA" --out "$OUT/mea-rates" --mechanisms "mha,mea,$variants" --params 1200k --layers 6 \
  --hidden 128 --heads 4 --vocab 1024 --tokens "$TOKENS" --batch 16 --seq 128 --parametrization standard --init "$INIT" --lr 1e-3,3e-3,1e-2,3e-2
