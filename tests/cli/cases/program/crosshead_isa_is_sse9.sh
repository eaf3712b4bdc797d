#!/bin/bash
# Environment variables that decide how to compute.
CROSSHEAD_ISA=sse9 crosshead info $DATA/reference/llama_gqa
