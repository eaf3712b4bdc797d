#!/bin/bash
crosshead compress $DATA/TinyStories-656K --out small
