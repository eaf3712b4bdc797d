#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task hellaswag --task-file missing.jsonl
