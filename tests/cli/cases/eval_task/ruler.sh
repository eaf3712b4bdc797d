#!/bin/bash
# RULER: items are made.
crosshead eval $DATA/TinyStories-656K --task ruler:niah_single_1@512 --limit 3 --log-samples s.jsonl
grep -c '"max_length":512' s.jsonl
