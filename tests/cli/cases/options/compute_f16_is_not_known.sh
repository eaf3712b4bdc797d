#!/bin/bash
m=$DATA/TinyStories-656K
echo "Once there was a cat." >t.txt
for c in f32 bf16; do
  crosshead eval $m --text t.txt --compute $c --json &&
    crosshead generate $m --prompt Once --max-tokens 2 --temperature 0 --compute $c 2>/dev/null &&
    crosshead bench $m --prompt 4 --depth 0 --tokens 2 --repeat 1 --compute $c
done
crosshead eval $m --text t.txt --compute f16
