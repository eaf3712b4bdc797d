#!/bin/bash
# The same by Ctrl-C on a terminal. Where the tests' own SIGINT is ignored, as in a background job,
# that would be inherited.
(
  while ! grep -q '"step":[1-9]' parts/log.jsonl 2>/dev/null && ! test -e ended; do
    sleep 0.05
  done
  printf '\003'
  while ! test -e ended; do
    sleep 0.05
  done
) | {
  env --default-signal=INT script \
      -qec "exec crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE --tokenizer $DATA/TinyStories-656K --steps 20000 --batch 2 --seq 32 --eval-every 0 --out parts" /dev/null
  echo status $?
  touch ended
} | tr -d '\r' | grep -o 'status [0-9]*'
