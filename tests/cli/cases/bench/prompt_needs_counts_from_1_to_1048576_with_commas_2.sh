#!/bin/bash
crosshead bench $DATA/TinyStories-656K --prompt 16,x
