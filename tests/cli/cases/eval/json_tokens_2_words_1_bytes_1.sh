#!/bin/bash
printf 'x' >t
crosshead eval $DATA/TinyStories-656K --text t --json
