#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task sciq --task-file $DATA/tasks/sciq.jsonl --fewshot 5
