#!/bin/bash
# A mixture of experts: trained twice to the same bits, its shares shown and logged, run from the
# cache.
sed 's/"attention":/"moe": {"experts": 6, "active": 2, "shared": 1, "expert_intermediate_size": 64, "first_dense_layers": 1, "balance": "loss_free"}, "attention":/' $DATA/../../configs/tiny-gqa.json >c.json
T="crosshead train c.json --data $DATA/../../LICENSE --tokenizer $DATA/TinyStories-656K --steps 4 --batch 2 \
  --seq 32 --eval-every 2 --eval-tokens 500 --checkpoint-every 2"
$T --out whole
$T --out parts >/dev/null 2>&1
grep -c '"expert_load":\[\[[0-9]*,' whole/log.jsonl
cmp whole/model.safetensors parts/model.safetensors && echo same bits
crosshead generate whole --prompt "The" --max-tokens 5 --temperature 0 >/dev/null 2>&1 && echo generated
