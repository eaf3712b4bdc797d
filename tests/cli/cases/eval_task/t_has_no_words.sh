#!/bin/bash
printf ' ' >t
crosshead eval $DATA/TinyStories-656K --task ruler:niah_single_2@512 --task-file t
