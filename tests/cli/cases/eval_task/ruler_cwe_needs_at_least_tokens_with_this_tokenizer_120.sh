#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler@512 --limit 1
