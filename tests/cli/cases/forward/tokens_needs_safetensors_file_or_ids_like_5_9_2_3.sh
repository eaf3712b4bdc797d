#!/bin/bash
crosshead forward $DATA/reference/llama_gqa --tokens 1,-2
