#!/bin/bash
cat >c.json <<'END'
{"model_type": "qwen3_moe", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48,
 "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 4,
 "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true,
 "decoder_sparse_step": 2}
END
seq 4000 >t.txt
crosshead train c.json --data t.txt --steps 6 --batch 4 --seq 32 --out run >/dev/null 2>&1
crosshead info run
crosshead compress run --method mea --component-heads 1 --calibration t.txt --calibration-tokens 4k \
    --out small 2>/dev/null
crosshead quantize run --type q8_0 --out q8 >/dev/null && for m in run small q8; do
  crosshead eval $m --text t.txt --json
  crosshead generate $m --prompt 12 --max-tokens 3 --json
done
grep dense_layers small/config.json
grep mlp_only run/config.json
crosshead export run --format gguf --out model.gguf
