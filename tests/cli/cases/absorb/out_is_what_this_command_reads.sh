#!/bin/bash
crosshead absorb $DATA/reference/qwen3 --out $DATA/reference/../reference/qwen3/
