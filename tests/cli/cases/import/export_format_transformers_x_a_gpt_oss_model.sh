#!/bin/bash
crosshead export $DATA/reference/gpt_oss --format transformers --out x
