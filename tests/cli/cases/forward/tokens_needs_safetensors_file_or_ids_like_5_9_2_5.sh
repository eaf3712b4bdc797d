#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,100000000000000000000
