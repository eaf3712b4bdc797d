#!/bin/bash
cp -r $DATA/TinyStories-656K m
crosshead compress m --method mea --component-heads 2 --out m/
