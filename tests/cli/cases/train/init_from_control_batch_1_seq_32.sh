#!/bin/bash
head -c 40000 $DATA/../../data/tinyshakespeare.txt >t.txt
M=$DATA/TinyStories-656K
crosshead train --init-from $M --control $M --data t.txt --batch 1 --seq 32 --steps 60000 --out m >out 2>err &
p=$!
until grep -q . m/log.jsonl 2>/dev/null; do
  sleep 0.1
done
kill -TERM $p
wait $p
echo $?
grep -c "train --out m --resume. continues" err
cat m/control.json
