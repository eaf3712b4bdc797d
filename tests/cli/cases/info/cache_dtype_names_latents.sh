#!/bin/bash
crosshead info $DATA/reference/qwen3 --cache-dtype latent=q8_0
