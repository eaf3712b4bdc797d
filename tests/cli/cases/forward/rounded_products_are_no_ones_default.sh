#!/bin/bash
# Rounded products are no one's default.
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3 --json >a
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3 --compute f32 --json | cmp a - && echo same
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3 --compute bf16 --json | cmp -s a - || echo other
