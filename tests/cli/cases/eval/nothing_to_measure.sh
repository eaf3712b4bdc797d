#!/bin/bash
crosshead eval $DATA/TinyStories-656K
