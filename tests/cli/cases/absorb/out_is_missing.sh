#!/bin/bash
crosshead absorb $DATA/reference/qwen3
