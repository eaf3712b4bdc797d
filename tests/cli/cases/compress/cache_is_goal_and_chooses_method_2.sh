#!/bin/bash
crosshead compress $DATA/TinyStories-656K --cache 50% --ratio 0.2 --out small
