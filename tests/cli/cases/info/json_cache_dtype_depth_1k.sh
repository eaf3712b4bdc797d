#!/bin/bash
crosshead info $DATA/reference/qwen3/config.json --json --cache-dtype f32 --depth 1k
