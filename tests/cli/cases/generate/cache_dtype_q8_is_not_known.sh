#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --cache-dtype q8
