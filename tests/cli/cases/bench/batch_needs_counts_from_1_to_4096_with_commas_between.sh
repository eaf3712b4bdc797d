#!/bin/bash
crosshead bench $DATA/TinyStories-656K --batch 0
