#!/bin/bash
crosshead forward $DATA/TinyStories-656K --tokens 1,2 --threads 4000
