#!/bin/bash
crosshead export $DATA/reference/deepseek_v2 --format gguf --out model.gguf
