#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task helaswag --task-file $DATA/tasks/hellaswag.jsonl
