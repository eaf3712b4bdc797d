#!/bin/bash
# A small window hurts, and a small stride helps.
for i in 1 2 3 4 5 6; do
  echo "Once upon a time, there was a little girl named Lily. She loved to play with her mom."
done >t
for w in "64 --stride 8" "64 --stride 63" "8 --stride 7"; do
  crosshead eval $DATA/TinyStories-656K --text t --json --window $w
done | sed 's/.*"loss": \([0-9.]*\),.*/\1/' | sort -c -n && echo sorted
