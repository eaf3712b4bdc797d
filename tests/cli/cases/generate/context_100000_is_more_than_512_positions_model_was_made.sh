#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --context 100000
