#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --out /dev/null/x
