#!/bin/bash
for i in $(seq 300); do
  echo "One day a girl named Lily went to park number $i with her dog."
done >t.txt
c() {
  o=$1
  shift
  crosshead compress $DATA/TinyStories-656K --ratio 0.2 --out $o "$@" >/dev/null 2>&1
}
c free --method masa --weighting paper
c ignored --method masa --weighting paper --data-free --calibration t.txt
c text --method masa --weighting paper --calibration t.txt
c weighed --method masa
c again --method masa --weighting measured --ranks searched
d() {
  cmp -s $1/model.safetensors $2/model.safetensors && echo "$1 is $2" || echo "$1 is not $2"
}
d free ignored
d free text
d free weighed
d weighed again
grep -h -e '"weighting"' -e '"ranks"' free/report.json weighed/report.json
