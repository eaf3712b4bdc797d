#!/bin/bash
echo hello >t
crosshead eval $DATA/TinyStories-656K --text t --window 1
