#!/bin/bash
crosshead info $DATA/reference/qwen3 --cache-dtype q5
