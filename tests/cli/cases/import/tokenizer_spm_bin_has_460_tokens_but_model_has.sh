#!/bin/bash
crosshead import $DATA/reference/qwen3 --tokenizer $DATA/text/spm.bin --out model
