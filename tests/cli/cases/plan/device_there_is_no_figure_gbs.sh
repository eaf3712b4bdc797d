#!/bin/bash
crosshead plan $DATA/reference/llama_gqa --context 64 --device name=x,gbs=3
