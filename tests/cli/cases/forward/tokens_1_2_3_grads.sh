#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3 --out o.safetensors --grads
grep -ac grad.model.embed_tokens.weight o.safetensors
