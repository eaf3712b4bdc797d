#!/bin/bash
echo x >d.partial
crosshead absorb $DATA/TinyStories-656K --out d
