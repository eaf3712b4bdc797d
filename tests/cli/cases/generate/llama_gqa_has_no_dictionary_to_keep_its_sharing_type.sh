#!/bin/bash
crosshead generate $DATA/reference/llama_gqa --keep-dictionary
