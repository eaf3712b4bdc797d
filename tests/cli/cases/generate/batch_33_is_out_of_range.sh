#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --batch 33 --samples 2
