#!/bin/bash
# Windows, soft caps, sinks, experts in MXFP4: in their own files, in ours, and as llama.cpp's
# converter writes them.
for f in gpt_oss gpt_oss_mxfp4 gemma2 gemma3_windows olmo3_windows phi3_longrope smollm3_windows; do
  crosshead import $DATA/reference/$f --out $f >/dev/null &&
    crosshead forward $DATA/reference/$f --tokens $(seq -s, 3 25) --json >a &&
    crosshead forward $f --tokens $(seq -s, 3 25) --json | cmp a - && echo $f same
done
