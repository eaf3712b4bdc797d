#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3,4,5,6 --cached 4 --json --out o.safetensors &&
  test -s o.safetensors
