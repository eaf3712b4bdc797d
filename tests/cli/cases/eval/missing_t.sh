#!/bin/bash
crosshead eval $DATA/TinyStories-656K --text t --cache-dtype q8_1
