#!/bin/bash
cat >vit.json <<'END'
{"model_type": "crosshead_vit", "image_size": 12, "patch_size": 3, "num_channels": 1,
 "num_classes": 6, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
 "num_attention_heads": 2}
END
crosshead train vit.json --images $DATA/images/shapes-idx --out run --steps 2 --batch 4 --augment flip+crop \
    --crop 2 --label-smoothing 0.1 --runs none >/dev/null 2>&1
head -1 run/log.jsonl
