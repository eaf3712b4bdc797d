#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:vt --length 5z
