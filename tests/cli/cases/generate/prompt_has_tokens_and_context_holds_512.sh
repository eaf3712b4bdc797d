#!/bin/bash
head -c 100000 /dev/zero | tr '\0' 'a' >long
crosshead generate $DATA/TinyStories-656K --prompt-file long
