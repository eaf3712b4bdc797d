#!/bin/bash
crosshead generate $DATA/TinyStories-656K --chat --prompt "Hello"
