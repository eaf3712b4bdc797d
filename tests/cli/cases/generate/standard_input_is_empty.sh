#!/bin/bash
: | crosshead generate $DATA/TinyStories-656K --max-tokens 2
