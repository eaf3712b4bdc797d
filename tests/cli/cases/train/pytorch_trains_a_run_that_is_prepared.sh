#!/bin/bash
# PyTorch trains a run that is prepared; what cannot train leaves nothing behind. tests/python has
# the rest.
C="crosshead train $DATA/../../configs/tiny-gqa.json --data $DATA/../../LICENSE \
  --tokenizer $DATA/TinyStories-656K --steps 2 --batch 2 --seq 64 --out m --engine pytorch"
$C --device cpu --prepare
ls m m/pytorch
rm -r m
$C --python /no/python
ls -A
