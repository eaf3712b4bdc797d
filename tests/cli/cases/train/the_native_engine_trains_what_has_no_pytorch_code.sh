#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "gqa"}, "norm_placement": "both"}
END
crosshead train c.json --data $DATA/../../data/tinyshakespeare.txt --out m --steps 2 --batch 1 --seq 8 --engine pytorch --prepare
status=$?
test ! -e m || echo "m is left"
exit $status
