#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --threads 1 --compute bf16
