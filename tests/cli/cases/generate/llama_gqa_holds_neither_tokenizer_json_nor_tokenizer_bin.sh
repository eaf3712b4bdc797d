#!/bin/bash
# Models of the tests that have no tokenizer.
crosshead generate $DATA/reference/llama_gqa --prompt x
