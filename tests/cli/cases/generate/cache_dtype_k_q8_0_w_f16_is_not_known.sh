#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt x --cache-dtype k=q8_0,w=f16
