#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --budget 50% --out small
