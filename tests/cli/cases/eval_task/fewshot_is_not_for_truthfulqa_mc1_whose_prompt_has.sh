#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task truthfulqa_mc1 --task-file $DATA/tasks/truthfulqa.json \
    --fewshot 1
