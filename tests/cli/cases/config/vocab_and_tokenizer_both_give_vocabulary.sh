#!/bin/bash
crosshead config mla --vocab 512 --tokenizer $DATA/reference/llama_gqa
