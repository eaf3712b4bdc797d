#!/bin/bash
crosshead bench $DATA/TinyStories-656K --threads 0
