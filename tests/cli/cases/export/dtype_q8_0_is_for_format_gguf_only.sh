#!/bin/bash
crosshead export $DATA/TinyStories-656K --format safetensors --dtype q8_0 --out kept
