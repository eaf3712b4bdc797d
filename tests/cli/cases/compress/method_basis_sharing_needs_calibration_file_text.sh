#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method basis-sharing --ratio 0.2 --out small
