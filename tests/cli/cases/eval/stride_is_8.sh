#!/bin/bash
printf 'One day' >t
crosshead eval $DATA/TinyStories-656K --text t --window 8 --stride 8
