#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task gsm8k --task-file $DATA/tasks/written/gsm8k.jsonl --fewshot 0 \
    --window 256
