#!/bin/bash
crosshead info $DATA/reference/qwen3 >/dev/full
