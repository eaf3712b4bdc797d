#!/bin/bash
crosshead quantize $DATA/TinyStories-656K --type q4_k --out small --json
