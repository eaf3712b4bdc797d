#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --top-k -1
