#!/bin/bash
# Parts of 16 elements take whole blocks of 32.
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3,4 --cached 2 --cache-dtype q8_0
