#!/bin/bash
# All tasks of RULER.
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 2048,
 "attention": {"type": "gqa"}}
END
crosshead train c.json --data $DATA/../../data/tinyshakespeare.txt --tokens 2k --seq 256 --batch 1 --out m \
    --runs none >/dev/null 2>&1
crosshead eval m --task ruler@1600 --limit 1
crosshead eval m --task ruler --length 1600,2k --limit 1
