#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q3_k --out small
