#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --cache-dtype q5 --device l4
