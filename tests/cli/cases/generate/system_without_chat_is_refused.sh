#!/bin/bash
crosshead generate $DATA/TinyStories-656K --system "Be brief." --prompt "Hello"
