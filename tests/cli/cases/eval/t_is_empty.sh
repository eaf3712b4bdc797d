#!/bin/bash
: >t
crosshead eval $DATA/TinyStories-656K --text t
