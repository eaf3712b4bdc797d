#!/bin/bash
printf '<|endoftext|>\n\n<|endoftext|>' >t
crosshead eval $DATA/TinyStories-656K --text t
