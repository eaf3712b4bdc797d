#!/bin/bash
crosshead info $DATA/reference/qwen3 --depth -1
