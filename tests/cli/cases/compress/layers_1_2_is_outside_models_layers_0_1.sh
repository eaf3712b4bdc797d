#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 2 --layers 1-2 --out small
