#!/bin/bash
crosshead export $DATA/TinyStories-656K --format transformers --tokenizer $DATA/TinyStories-656K --out out
