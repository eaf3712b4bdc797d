#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 280, "hidden_size": 16, "intermediate_size": 24,
 "num_hidden_layers": 2, "num_attention_heads": 4, "attention": {"type": "gqa", "num_key_heads": 1,
 "num_value_heads": 2}}
END
seq 3000 >t.txt
crosshead train c.json --data t.txt --steps 2 --batch 2 --seq 16 --out run >/dev/null 2>&1
crosshead info run | grep heads
crosshead compress run --method mea --component-heads 1 --out less 2>&1
crosshead export run --format gguf --out model.gguf
