#!/bin/bash
CROSSHEAD_ISA=plain crosshead info $DATA/reference/llama_gqa | grep -c '^model'
CROSSHEAD_ISA=none crosshead --help | grep -c Usage
