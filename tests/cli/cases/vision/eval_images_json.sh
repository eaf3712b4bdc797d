#!/bin/bash
cat >vit.json <<'END'
{"model_type": "crosshead_vit", "image_size": 12, "patch_size": 3, "num_channels": 1,
 "num_classes": 6, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
 "num_attention_heads": 2}
END
crosshead train vit.json --images $DATA/images/shapes-idx --out run --epochs 1 --batch 50 &&
  crosshead eval run --images $DATA/images/shapes-idx --limit 50 &&
  crosshead eval run --images $DATA/images/shapes-idx/t10k-images-idx3-ubyte.gz --json &&
  grep -c images_per_second run/log.jsonl && test -s run/model.safetensors && test -s run/data.json
