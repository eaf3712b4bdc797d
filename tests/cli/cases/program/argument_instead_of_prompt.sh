#!/bin/bash
crosshead generate $DATA/reference/llama_gqa "Once upon a time"
