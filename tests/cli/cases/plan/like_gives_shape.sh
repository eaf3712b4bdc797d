#!/bin/bash
crosshead plan mha --like $DATA/reference/llama_gqa --layers 3 --context 64 --device l4
