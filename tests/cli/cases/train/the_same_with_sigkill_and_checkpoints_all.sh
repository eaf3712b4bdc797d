#!/bin/bash
# The same with SIGKILL and checkpoints all the time.
# unsanitized: takes long, and unit tests run the same code
exec 2>/dev/null
T="crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
  --tokenizer $DATA/TinyStories-656K --steps 40 --batch 2 --seq 32 --eval-every 0 --eval-tokens 500 \
  --checkpoint-every 1"
$T --out whole 2>/dev/null >/dev/null
$T --out parts 2>/dev/null &
while ! grep -q '"step":5' parts/log.jsonl 2>/dev/null; do
  sleep 0.01
done
kill -KILL $!
wait $!
status=$?
[ $status = 0 ] || [ $status = 137 ] || echo "status $status" # 0 if it was too fast to kill
crosshead train --out parts --resume 2>/dev/null
cmp whole/model.safetensors parts/model.safetensors && echo same bits
! ls parts | grep tmp
