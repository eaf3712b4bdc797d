#!/bin/bash
mkdir d
echo mine >d/config.json
crosshead absorb $DATA/TinyStories-656K --out d --force
