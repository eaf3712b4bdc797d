#!/bin/bash
# The shape of another model: its size, or another one with its vocabulary and context.
D=$DATA/reference/llama_gqa
for m in mla "mla --params 2M"; do
  crosshead config $m --like $D >c.json
  crosshead info c.json --json | grep -oE '"(parameters_total|cache_elements_per_token)": *[0-9]+'
  for k in vocab_size max_position_embeddings; do
    [ "$(grep $k c.json | tr -d ' ,')" = "$(grep $k $D/config.json | tr -d ' ,')" ] && echo same $k
  done
done
crosshead info $D --json | grep -oE '"parameters_total": *[0-9]+'
