#!/bin/bash
crosshead bench $DATA/TinyStories-656K --repeat 0
