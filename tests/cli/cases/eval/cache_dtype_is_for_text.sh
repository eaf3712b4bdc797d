#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task hellaswag --task-file t --cache-dtype f16
