#!/bin/bash
printf 'One day' >t
crosshead eval $DATA/TinyStories-656K --text t --documents lines
