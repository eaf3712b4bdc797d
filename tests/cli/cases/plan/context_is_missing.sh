#!/bin/bash
crosshead plan $DATA/reference/llama_gqa
