#!/bin/bash
# An id that is no 64-bit number, and Python's NaN, are of no interest to a task.
cat >big.jsonl <<'END'
{"id": 18446744073709551615, "of": NaN, "question": "Which animal barks?",
 "choices": {"text": ["dog", "cat"], "label": ["A", "B"]}, "answerKey": "A"}
END
crosshead eval $DATA/TinyStories-656K --task arc_easy --task-file big.jsonl
