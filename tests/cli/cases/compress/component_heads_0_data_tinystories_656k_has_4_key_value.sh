#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 0 --out small
