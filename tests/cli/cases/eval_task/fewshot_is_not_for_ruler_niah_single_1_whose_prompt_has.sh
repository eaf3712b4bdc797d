#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:niah_single_1@512 --fewshot 2 --limit 1
