#!/bin/bash
printf 'One day\n\nThe moon\n' >p.txt
crosshead generate $DATA/TinyStories-656K --prompts p.txt
