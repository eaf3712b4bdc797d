#!/bin/bash
crosshead eval $DATA/reference/llama_gqa a.txt
