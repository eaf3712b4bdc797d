#!/bin/bash
crosshead eval $DATA/TinyStories-656K --task arc_easy --task-file $DATA/tasks/arc.jsonl --log-samples s.jsonl
grep -c '"doc_id":' s.jsonl
grep -o '"arguments":\[\["Question: Which of these is a liquid?\\nAnswer:"," stone"\]' s.jsonl &&
  test -s s.jsonl
