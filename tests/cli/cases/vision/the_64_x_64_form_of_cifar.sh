#!/bin/bash
# The 64 x 64 form of CIFAR: every pixel four times.
for s in 64 48; do
  cat >vit.json <<<'{"model_type": "crosshead_vit", "image_size": '$s', "patch_size": 16, "num_classes": 10, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}'
  crosshead train vit.json --images $DATA/images/shapes-cifar --out run$s --steps 3 --batch 8 \
      --runs none 2>/dev/null |
    grep -o '3 steps'
done
crosshead eval run64 --images $DATA/images/shapes-cifar --json 2>/dev/null | grep -o '"images": [0-9]*'
crosshead compare --images $DATA/images/shapes-cifar --image-size 64 --mechanisms mha --params 20k \
    --layers 1 --hidden 16 --heads 2 --epochs 1 --out side >/dev/null 2>&1
cat side/mha/config.json
ls run48 2>/dev/null | wc -l
