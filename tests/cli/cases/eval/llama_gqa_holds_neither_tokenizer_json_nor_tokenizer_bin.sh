#!/bin/bash
echo hello >t
crosshead eval $DATA/reference/llama_gqa --text t
