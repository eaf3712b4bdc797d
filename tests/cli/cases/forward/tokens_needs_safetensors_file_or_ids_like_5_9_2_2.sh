#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,x,3
