#!/bin/bash
(
  printf '{"runs": ['
  for n in 1 2 4 8; do
    for d in 20 40 80; do
      printf '{"status": "done", "parameters": %d, "tokens": %d, "validation_loss": %s, "config": {"vocab_size": 1000, "hidden_size": 100, "tie_word_embeddings": true}}, ' $((n * 1000000 + 100000)) $((d * 1000000)) $(awk -v n=$n -v d=$d 'BEGIN {print exp(0.4 * log(exp(0.75 * log(40 / n)) + 500 / d))}')
    done
  done
  printf '{"status": "failed", "parameters": 5, "tokens": 7, "validation_loss": 9}]}'
) >r.json
crosshead fit r.json --law size
