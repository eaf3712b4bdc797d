#!/bin/bash
head -c 700 $DATA/tasks/hellaswag.jsonl >t
crosshead eval $DATA/TinyStories-656K --task hellaswag --task-file t
