#!/bin/bash
# What a comparison trains: the same file, for mechanisms with every kind of addition.
head -c 300000 $DATA/../../data/tinyshakespeare.txt >t.txt
S="--params 200k --vocab 512 --seq 32 --parametrization standard --init deepseek"
L="mla gqa:4 mha kha-mlp+xsa mfa+masa-qkvo"
for m in $L; do
  crosshead compare --data t.txt --mechanisms $m $S --tokens 128 --batch 4 --out c/$m >/dev/null 2>&1
  crosshead config $m $S | cmp - c/$m/*/config.json && echo "$m is the same"
done
