#!/bin/bash
# What no command wrote stays, even with --force.
m=$DATA/TinyStories-656K
crosshead absorb $m --out d >/dev/null
echo mine >d/notes
crosshead absorb $m --out d --force
