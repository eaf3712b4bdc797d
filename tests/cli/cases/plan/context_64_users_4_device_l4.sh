#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --users 4 --device l4
