#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task lambada --task-file $DATA/tasks/lambada.jsonl --json
