#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,2,3,4 --cache-dtype q8_0
