#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --like $DATA/reference/llama_gqa --context 64 --device l4
