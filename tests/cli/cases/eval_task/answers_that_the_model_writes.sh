#!/bin/bash
# Answers that the model writes.
crosshead eval $DATA/TinyStories-656K --task $DATA/tasks/written/nq_like.json \
    --task-file $DATA/tasks/written/nq_like.jsonl --fewshot 2 \
    --fewshot-file $DATA/tasks/written/nq_like_train.jsonl --log-samples s.jsonl
grep -c '"filtered_resps":{"remove_whitespace":' s.jsonl && test -s s.jsonl
