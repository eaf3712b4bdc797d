#!/bin/bash
crosshead info $DATA/reference/llama_gqa
