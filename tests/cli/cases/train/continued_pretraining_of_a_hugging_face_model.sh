#!/bin/bash
# Continued pretraining of a Hugging Face model, with its tokenizer; it knows its text already.
crosshead train --init-from $DATA/TinyStories-656K --data $DATA/../../LICENSE --out m --steps 2 --batch 2 \
    --seq 32 2>/dev/null &&
  crosshead info m
