#!/bin/bash
crosshead info $DATA/reference/qwen3 --json --depth 100
