#!/bin/bash
(
  printf '{"models": ['
  for n in 1 2 4 8; do
    for d in 20 40 80; do
      printf '{"parameters": %d, "parameters_embedding": 70000, "tokens_trained": %d, "loss": %s}, ' $((n * 1000000 + 70000)) $((d * 1000000)) $(awk -v n=$n -v d=$d 'BEGIN {print exp(0.4 * log(exp(0.75 * log(40 / n)) + 500 / d))}')
    done
  done
  printf '{"parameters": 9, "parameters_embedding": 1, "tokens_trained": 7}]}'
) >r.json
crosshead fit r.json --law size --on training
