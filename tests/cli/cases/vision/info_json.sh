#!/bin/bash
cat >vit.json <<'END'
{"model_type": "crosshead_vit", "image_size": 32, "patch_size": 8, "num_classes": 10,
 "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
 "attention": {"type": "mfa"}, "sharing": {"type": "masa", "projections": ["k", "v", "o"],
 "atoms": 1}}
END
crosshead train vit.json --data $DATA/images/shapes-cifar --out whole --steps 600 --batch 8 --seed 4 \
    --eval-every 97 >/dev/null 2>&1
crosshead train vit.json --data $DATA/images/shapes-cifar --out parts --steps 600 --batch 8 --seed 4 \
    --eval-every 97 >/dev/null 2>&1 &
pid=$!
while ! grep -qs '"step":9,' parts/log.jsonl; do
  sleep 0.02
done
kill -TERM $pid
wait $pid
echo "stopped with $?"
crosshead train --out parts --resume --json && cmp whole/model.safetensors parts/model.safetensors &&
  echo alike
crosshead absorb parts --out dense && crosshead eval parts --images $DATA/images/shapes-cifar | head -2 >a
crosshead eval dense --images $DATA/images/shapes-cifar | head -2 >b
cmp a b && echo the same accuracies
crosshead info dense --json
