#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --samples 2 --trace t.json
