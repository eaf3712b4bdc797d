#!/bin/bash
crosshead info $DATA/reference/qwen3 $DATA/reference/llama_gqa
