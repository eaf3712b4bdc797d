#!/bin/bash
crosshead train $DATA/TinyStories-656K --recover --data $DATA/README.md --out run
