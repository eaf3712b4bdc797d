#!/bin/bash
T=$(seq -s, 1 60)
crosshead forward $DATA/reference/llama_gqa --tokens $T --json >a
crosshead forward $DATA/reference/llama_gqa --tokens $T --compute f32 --json | cmp a - && echo same
crosshead forward $DATA/reference/llama_gqa --tokens $T --compute bf16 --json | cmp -s a - || echo other
