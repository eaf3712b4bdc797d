#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 2, "attention": {"type": "mfa_kr",
 "knocking": {"type": "linear", "on": ["q", "k"]}}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 1 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead absorb run --out plain
