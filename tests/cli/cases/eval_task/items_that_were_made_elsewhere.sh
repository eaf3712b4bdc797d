#!/bin/bash
# Items that were made elsewhere.
printf '{"index": 0, "input": "The number is 4. Which?", "outputs": ["4"], "answer_prefix": " It is"}\n' >t
crosshead eval $DATA/TinyStories-656K --task ruler:niah_single_1 --task-file t --log-samples s.jsonl
grep -c '"arguments":\[\["The number is 4. Which? It is"\]\]' s.jsonl
