#!/bin/bash
# Families that become models of ours, in their own files and in ours.
for f in phi3 gpt2 mixtral olmo2 glm4; do
  crosshead import $DATA/reference/$f --out $f >/dev/null &&
    crosshead forward $DATA/reference/$f --tokens 5,6,7 --json >a &&
    crosshead forward $f --tokens 5,6,7 --json | cmp a - && echo $f same
done
