#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task ruler:vt@512 --length 512
