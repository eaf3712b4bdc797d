#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --max-tokenz 3
