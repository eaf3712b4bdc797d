#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:niah_multikey_3 --length 480,512 --limit 2 --seed 7 --json
