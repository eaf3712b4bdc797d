#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task mmlu --task-file $DATA/tasks/mmlu/test --fewshot 2 \
    --fewshot-file $DATA/tasks/mmlu/dev
