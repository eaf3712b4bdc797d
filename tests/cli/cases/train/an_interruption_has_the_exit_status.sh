#!/bin/bash
# An interruption has the exit status of its signal and says how to go on.
crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
    --tokenizer $DATA/TinyStories-656K --steps 20000 --batch 2 --seq 32 --eval-every 0 --out parts 2>err &
while ! grep -q '"step":[1-9]' parts/log.jsonl 2>/dev/null; do
  sleep 0.01
done
kill -TERM $!
wait $!
echo status $?
tail -1 err
