#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompts p.txt --prompt x
