#!/bin/bash
(
  yes 'a b c d e f' | head -c 900
  printf 'caf\351 a'
) >t
crosshead eval $DATA/TinyStories-656K --text t
