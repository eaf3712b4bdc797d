#!/bin/bash
crosshead info $DATA/TinyStories-656K/model.safetensors
