#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method masa --out small
