#!/bin/bash
crosshead info $DATA/reference/llama_gqa --ranks 2 --json
