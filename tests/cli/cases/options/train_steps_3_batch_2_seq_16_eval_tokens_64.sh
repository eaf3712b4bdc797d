#!/bin/bash
t() {
  crosshead train $DATA/../../configs/tiny-gqa.json --data t.txt --tokenizer $DATA/TinyStories-656K \
      --steps 3 --batch 2 --seq 16 --eval-tokens 64 --separator blank-lines --runs none "$@" >/dev/null 2>&1
}
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
t --out plain && t --out again --recompute --whole-tables &&
  cmp plain/model.safetensors again/model.safetensors && echo same
t --out other --beta1 0.8 --beta2 0.9 --eps 1e-6 --weight-decay 0.2 --clip 0.5 --validation 0.3 &&
  cmp -s plain/model.safetensors other/model.safetensors || echo differs
grep -o '"beta1":0.8,"beta2":0.9,"eps":1e-6,"weight_decay":0.2,"clip":0.5' other/log.jsonl
t --out marked --documents --separator marker && cmp -s plain/model.safetensors marked/model.safetensors ||
  echo one document
