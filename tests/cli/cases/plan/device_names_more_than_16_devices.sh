#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --device $(yes l4 | head -17 | paste -sd,)
