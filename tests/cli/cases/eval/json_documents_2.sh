#!/bin/bash
printf 'a<|endoftext|>b' >t
crosshead eval $DATA/TinyStories-656K --text t --json
