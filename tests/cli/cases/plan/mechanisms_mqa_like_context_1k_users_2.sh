#!/bin/bash
crosshead plan mha gqa:2 --mechanisms mqa --like $DATA/reference/llama_gqa --context 1k --users 2 \
    --device l4,h100-sxm --json
