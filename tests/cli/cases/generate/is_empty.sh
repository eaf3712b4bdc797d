#!/bin/bash
: >p.txt
crosshead generate $DATA/TinyStories-656K --prompts p.txt
