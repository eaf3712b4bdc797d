#!/bin/bash
# The keys of the JSON object, in order: what scripts rely on.
printf 'Once upon a time.' >t
crosshead eval $DATA/TinyStories-656K --text t --json | grep -o '"[a-z_]*":' | tr -d '"\n'
