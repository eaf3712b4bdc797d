#!/bin/sh
# MFA, Tables 1, 2 and 5: few large heads over one key and one value, against MHA, GQA, MQA and MLA at equal parameters; what
# reusing the key costs; and what the gate is for that starts at zero.
# shellcheck source=bench/reproduction/common.sh
. "$(dirname "$0")/common.sh"

claim mfa "MFA and MFA-KR at equal parameters" mha,gqa:2,mqa,mla,mfa,mfa_kr "$@"

for reuse in gated residual projection key; do # the shape of the preset mfa_kr
  variant "mfa_kr-$reuse" '"num_attention_heads": 4, "head_dim": 64' \
    "{\"type\": \"mfa_kr\", \"value_reuse\": \"$reuse\"}"
done
claim mfa-kr "MFA-KR: how the value is made from the key" "mfa,$list" "$@"
