#!/bin/bash
echo 'One day a girl went to the park.' >t.txt
crosshead compress $DATA/TinyStories-656K --method svd-llm --ratio 0.2 --calibration t.txt --text t.txt \
    --out small
