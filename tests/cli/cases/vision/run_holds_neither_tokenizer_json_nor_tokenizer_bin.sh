#!/bin/bash
cat >vit.json <<'END'
{"model_type": "crosshead_vit", "image_size": 12, "patch_size": 3, "num_channels": 1,
 "num_classes": 6, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
 "num_attention_heads": 2}
END
crosshead train vit.json --images $DATA/images/shapes-idx --out run --steps 2 >/dev/null 2>&1
echo hello >text
for command in 'generate run --prompt x' 'bench run' 'eval run --text text' 'forward run --tokens 1,2'; do
  crosshead $command 2>&1
done
crosshead tokenize run text
