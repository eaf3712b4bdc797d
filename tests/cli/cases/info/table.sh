#!/bin/bash
crosshead info --table $DATA/reference/qwen3/ $DATA/reference/llama_gqa/config.json
