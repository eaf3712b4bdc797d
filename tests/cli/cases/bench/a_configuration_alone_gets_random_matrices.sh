#!/bin/bash
# A configuration alone gets random matrices. The keys of the JSON object, in order: what scripts
# rely on.
cp $DATA/reference/llama_gqa/config.json c.json
crosshead bench c.json --prompt 4 --depth 4 --tokens 2 --repeat 1 --train --batch 2 --seq 8 \
    --cache-dtype f16 --json |
  grep -o '"[a-z_0-9]*":' | tr -d '"\n'
