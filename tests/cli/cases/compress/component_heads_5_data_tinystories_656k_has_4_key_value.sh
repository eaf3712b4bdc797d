#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --component-heads 5 --out small
