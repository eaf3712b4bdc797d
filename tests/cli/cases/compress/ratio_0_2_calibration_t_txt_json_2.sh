#!/bin/bash
# unsanitized: takes long, and unit tests run the same code
for i in $(seq 300); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
c() {
  o=$1
  shift
  crosshead compress $DATA/TinyStories-656K --ratio 0.2 --calibration t.txt --out $o "$@" --json 2>/dev/null |
    grep -e '"weighting"'
}
c default --method svd-llm
c share --method svd-llm --ranks share
c projection --method svd-llm --ranks projection
c searched --method svd-llm --ranks searched
c paper --method svd-llm --ranks searched --weighting paper
d() {
  cmp -s $1/model.safetensors $2/model.safetensors && echo "$1 is $2" || echo "$1 is not $2"
}
d default share
d share projection
d share searched
d searched paper
