#!/bin/bash
crosshead eval $DATA/reference/qwen3 --images $DATA --stride 4
