#!/bin/sh
# KHA, Tables 1 and 2: MLP and linear knocking by the number of key-value heads, and by type and place.
# shellcheck source=bench/reproduction/common.sh
. "$(dirname "$0")/common.sh"

claim kha-heads "Knocking heads by the number of key-value heads" \
  gqa:1,kha-linear:1,kha-mlp:1,gqa:2,kha-linear:2,kha-mlp:2,gqa:4,kha-linear:4,kha-mlp:4 "$@"

knocking() { # TYPE, LETTERS as a JSON list, NAME
  variant "knock-$3" '"num_attention_heads": 4, "num_key_value_heads": 2' \
    "{\"type\": \"gqa\", \"knocking\": {\"type\": \"$1\", \"on\": $2}}"
}
knocking linear '["q"]' linear-q
knocking linear '["k"]' linear-k
knocking linear '["v"]' linear-v
knocking linear '["q", "k", "v"]' linear-qkv
knocking mlp '["q"]' mlp-q
knocking mlp '["k"]' mlp-k
knocking mlp '["v"]' mlp-v
knocking mlp '["q", "k", "v"]' mlp-qkv
knocking gate '["v"]' gate-v
claim kha-place "Knocking heads by type and place, two key-value heads" "gqa:2,$list" "$@"
