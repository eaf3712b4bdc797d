#!/bin/bash
# The file that comes out can go in again: its tokens cannot.
crosshead forward $DATA/reference/llama_gqa --tokens 1,2 --out o.safetensors >/dev/null
crosshead forward $DATA/reference/llama_gqa --tokens o.safetensors
