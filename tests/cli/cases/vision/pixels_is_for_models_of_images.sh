#!/bin/bash
crosshead forward $DATA/reference/qwen3 --pixels none.safetensors
