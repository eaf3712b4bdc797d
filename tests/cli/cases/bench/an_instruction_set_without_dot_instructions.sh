#!/bin/bash
# An instruction set without dot instructions has no limit of them, and matrices of BF16 are held
# against multiply-adds.
cp $DATA/reference/llama_gqa/config.json c.json
CROSSHEAD_ISA=avx2 crosshead bench c.json --prompt 4 --depth 0 --tokens 1 --repeat 1 --dtype bf16
