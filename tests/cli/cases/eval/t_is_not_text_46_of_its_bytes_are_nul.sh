#!/bin/bash
head -c 4000 $DATA/TinyStories-656K/model.safetensors | tail -c 2000 >t
crosshead eval $DATA/TinyStories-656K --text t
