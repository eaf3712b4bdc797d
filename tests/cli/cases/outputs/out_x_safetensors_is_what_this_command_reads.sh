#!/bin/bash
crosshead forward $DATA/TinyStories-656K --tokens 1,2 --out x.safetensors >/dev/null
crosshead forward $DATA/TinyStories-656K --tokens x.safetensors --out x.safetensors --force
