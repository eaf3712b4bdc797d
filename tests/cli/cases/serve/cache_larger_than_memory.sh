#!/bin/bash
crosshead serve $DATA/TinyStories-656K --port 0 --context 1000000000 --parallel 32
