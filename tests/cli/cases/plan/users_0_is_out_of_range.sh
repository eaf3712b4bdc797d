#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --users 0
