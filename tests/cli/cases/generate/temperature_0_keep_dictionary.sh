#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 3, "num_attention_heads": 2, "sharing": {"type": "masa", "projections": ["q",
 "k", "v", "o"], "atoms": 1, "coefficients": "mlp"}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead generate run --prompt 12 --max-tokens 5 --temperature 0 >a
crosshead generate run --prompt 12 --max-tokens 5 --temperature 0 --keep-dictionary >b && cmp a b
