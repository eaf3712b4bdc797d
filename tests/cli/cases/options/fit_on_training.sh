#!/bin/bash
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
  echo "{\"event\":\"step\",\"step\":$i,\"tokens\":$i,\"loss\":$(awk "BEGIN{print (4/$i)^0.5+2}")}"
done >log.jsonl
crosshead fit log.jsonl --on training
