#!/bin/bash
# The documents of JSON lines are separate whatever separates those of plain text.
printf '{"text": "one\\n\\nof three"}\n{"text": "two"}\n\n{"text": ""}\n{"text": "three"}\n' >d.jsonl
for s in auto blank-lines none; do
  crosshead eval $DATA/TinyStories-656K --text d.jsonl --separator $s
done | grep -c 'of 3 documents'
