#!/bin/bash
crosshead bench $DATA/TinyStories-656K --depths 4
