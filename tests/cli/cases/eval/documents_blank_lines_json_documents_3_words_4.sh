#!/bin/bash
printf 'one\n\ntwo\n\n\nthree four\n' >t
crosshead eval $DATA/TinyStories-656K --text t --documents blank-lines --json
