#!/bin/bash
crosshead eval $DATA/reference/qwen3
