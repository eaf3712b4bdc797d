#!/bin/bash
echo 'Hello' | crosshead tokenize $DATA/TinyStories-656K - --add-special
