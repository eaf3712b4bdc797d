#!/bin/bash
crosshead export $DATA/reference/gpt_oss --format gguf --out x.gguf
