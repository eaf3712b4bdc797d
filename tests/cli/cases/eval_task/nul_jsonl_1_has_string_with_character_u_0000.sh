#!/bin/bash
printf '{"id": 1, "question": "Which\\u0000 animal barks?", "choices": {"text": ["dog", "cat"], "label": ["A", "B"]}, "answerKey": "A"}' >nul.jsonl
crosshead eval $DATA/TinyStories-656K --task arc_easy --task-file nul.jsonl
