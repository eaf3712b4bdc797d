#!/bin/bash
printf 'One day a girl went to the park.\n\nShe saw a dog.\n' >t
crosshead eval $DATA/TinyStories-656K --text t
