#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task hellaswag --task-file $DATA/tasks/hellaswag_lines.txt.bz2 \
    --limit 1 --json
