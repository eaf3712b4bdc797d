#!/bin/bash
touch config.json
for d in / . .. "$HOME"; do
  crosshead absorb $DATA/TinyStories-656K --out "$d" --force 2>/dev/null
  echo $?
done | sort | uniq -c | tr -s ' '
