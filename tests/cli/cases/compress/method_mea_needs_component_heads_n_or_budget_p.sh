#!/bin/bash
crosshead compress $DATA/TinyStories-656K --method mea --out small
