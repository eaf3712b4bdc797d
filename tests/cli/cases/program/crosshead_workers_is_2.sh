#!/bin/bash
CROSSHEAD_WORKERS=2 crosshead info $DATA/reference/llama_gqa
