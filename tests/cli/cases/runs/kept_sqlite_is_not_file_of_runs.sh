#!/bin/bash
echo none >kept.sqlite
echo cat >t.txt
crosshead eval $DATA/TinyStories-656K --text t.txt --runs kept.sqlite
