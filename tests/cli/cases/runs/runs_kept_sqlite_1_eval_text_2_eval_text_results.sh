#!/bin/bash
echo "Once upon a time there was a cat. It sat." >t.txt
CROSSHEAD_RUNS=kept.sqlite crosshead eval $DATA/TinyStories-656K --text t.txt &&
  crosshead eval $DATA/TinyStories-656K --text t.txt --window 8 --runs kept.sqlite --json >e.json &&
  crosshead runs --runs kept.sqlite kind=eval 'validation_loss>0' 'results.tokens>5' &&
  crosshead runs show 2 --runs kept.sqlite && test ! -e runs.sqlite
