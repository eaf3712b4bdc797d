#!/bin/bash
# The option is there already.
crosshead eval $DATA/reference/llama_gqa --text a.txt b.txt
