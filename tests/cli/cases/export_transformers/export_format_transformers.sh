#!/bin/bash
crosshead export $DATA/TinyStories-656K --format transformers --out out && test ! -e out/modeling_crosshead.py
