#!/bin/bash
crosshead generate $DATA/TinyStories-656K extra --prompt x
