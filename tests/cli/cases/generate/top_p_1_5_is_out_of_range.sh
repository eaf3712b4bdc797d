#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --top-p 1.5
