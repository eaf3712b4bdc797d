#!/bin/bash
# What the command reads stays too.
mkdir all
cp -r $DATA/TinyStories-656K all/m
crosshead quantize all/m --type q8_0 --out all
