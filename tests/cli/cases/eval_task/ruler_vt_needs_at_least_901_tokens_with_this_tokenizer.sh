#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:vt@512 --fewshot 2 --limit 1
