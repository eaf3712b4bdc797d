#!/bin/bash
# Interrupted at some step, resumed: the same bits as an unbroken run.
T="crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
  --tokenizer $DATA/TinyStories-656K --steps 60 --batch 2 --seq 32 --eval-every 20 --eval-tokens 500"
$T --out whole 2>/dev/null >/dev/null
$T --out parts >/dev/null 2>&1 &
while ! grep -q '"step":[1-9]' parts/log.jsonl 2>/dev/null; do
  sleep 0.01
done
kill -INT $!
wait $!
status=$?
[ $status = 0 ] || [ $status = 130 ] || echo "status $status" # 0 if it was too fast to interrupt
crosshead train --out parts --resume 2>/dev/null
cmp whole/model.safetensors parts/model.safetensors && echo same bits
