#!/bin/bash
head -c 2000000 $DATA/../../data/tinyshakespeare.txt >story.txt
crosshead info story.txt
