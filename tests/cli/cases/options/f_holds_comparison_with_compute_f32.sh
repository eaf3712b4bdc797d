#!/bin/bash
# Side by side in BF16: other losses than F32's, and a directory that is continued with neither by
# mistake.
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
c() {
  crosshead compare --data t.txt --mechanisms mqa --params 40k --vocab 300 --tokens 2k --seq 16 --batch 4 \
      --eval-tokens 64 --out "$@" >/dev/null
}
c f 2>/dev/null && c b --compute bf16 2>/dev/null &&
  { cmp -s f/mqa/model.safetensors b/mqa/model.safetensors || echo other; }
c f --compute f32 2>/dev/null && echo same
c f --dtype bf16
