#!/bin/bash
crosshead config gqa --params 1M --match cache --cache-per-token 512 >c.json
crosshead info c.json --json | grep -o '"cache_elements_per_token": *[0-9]*' |
  awk '{ print ($2 > 380 && $2 <= 512 ? "at most 512, and nearly that" : $0) }'
