#!/bin/bash
# Through a cache: in F32 the same figures, in fewer bits nearly.
head -c 600 $DATA/TinyStories-656K/config.json >t
crosshead eval $DATA/TinyStories-656K --text t | head -1 >a
crosshead eval $DATA/TinyStories-656K --text t --cache-dtype f32 >b
grep -cFf a b
grep cache b
