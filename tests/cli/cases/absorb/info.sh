#!/bin/bash
crosshead absorb $DATA/reference/llama_gqa --out plain --dtype bf16 --json && crosshead info plain
