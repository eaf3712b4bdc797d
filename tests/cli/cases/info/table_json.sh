#!/bin/bash
crosshead info $DATA/reference/qwen3 --table $DATA/reference/llama_gqa --json
