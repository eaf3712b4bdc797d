#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q8_0
