#!/bin/bash
printf 'a b\n\nc d\n' >t
crosshead eval $DATA/TinyStories-656K --text t --documents blank-lines --json
