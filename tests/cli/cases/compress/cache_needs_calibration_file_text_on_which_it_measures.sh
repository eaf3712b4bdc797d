#!/bin/bash
crosshead compress $DATA/TinyStories-656K --cache 50% --out small
