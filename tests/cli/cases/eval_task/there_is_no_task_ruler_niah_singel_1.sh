#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:niah_singel_1@512
