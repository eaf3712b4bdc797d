#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --memory 24pounds
