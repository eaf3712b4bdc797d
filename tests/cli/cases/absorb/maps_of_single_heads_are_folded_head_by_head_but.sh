#!/bin/bash
# Maps of single heads are folded head by head, but not through a mix that stays.
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "gqa",
 "knocking": {"type": "linear", "on": ["q", "v"], "per_head": true}, "head_mix": {"on": ["v"],
 "component_heads": 1}}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 1 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead info run
crosshead absorb run --out plain --keep-cache
crosshead absorb run --out large
