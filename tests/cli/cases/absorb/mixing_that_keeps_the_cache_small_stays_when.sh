#!/bin/bash
# Mixing that keeps the cache small stays when it is asked to, and the cache grows where it is not.
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "gqa",
 "head_mix": {"on": ["k", "v"], "component_heads": 1}}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead absorb run --out small --keep-cache && crosshead absorb run --out large &&
  crosshead info small --json | grep cache_elements && crosshead info large --json | grep cache_elements
