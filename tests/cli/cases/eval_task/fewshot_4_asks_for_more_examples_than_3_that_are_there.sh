#!/bin/bash
# Examples of lm-evaluation-harness 0.4.13, whose sampler draws again without an item's copies when
# too few are left.
for i in 0 1 0 2 0 3; do
  printf '{"question": "Which is number %d?", "choices": {"text": ["n%d", "x", "y", "z"], "label": ["A", "B", "C", "D"]}, "answerKey": "A"}\n' $i $i
done >d.jsonl
crosshead eval $DATA/TinyStories-656K --task arc_easy --task-file d.jsonl --fewshot 2 \
    --log-samples s.jsonl >/dev/null
python3 -c '
import json, re
print([re.findall(r"number (\d)", json.loads(l)["arguments"][0][0]) for l in open("s.jsonl")])
'
crosshead eval $DATA/TinyStories-656K --task arc_easy --task-file d.jsonl --fewshot 4
