#!/bin/bash
crosshead generate $DATA/TinyStories-656K --prompt One --precompute-gates
