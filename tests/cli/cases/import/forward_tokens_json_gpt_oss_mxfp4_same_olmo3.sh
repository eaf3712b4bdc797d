#!/bin/bash
for f in gpt_oss_mxfp4 olmo3_windows; do
  crosshead import $DATA/formats/$f.gguf --out $f >/dev/null &&
    crosshead forward $DATA/reference/$f --tokens $(seq -s, 3 25) --json | head -c 15 >a &&
    crosshead forward $f --tokens $(seq -s, 3 25) --json | head -c 15 | cmp a - && echo $f same
done
