#!/bin/bash
head -c 100000 /dev/zero >t
crosshead eval $DATA/TinyStories-656K --text t
