#!/bin/bash
crosshead absorb $DATA/reference/qwen3 --out /dev/null/x
