#!/bin/bash
printf '{"index": 0, "input": "The number is 4. Which?", "outputs": ["4"], "answer_prefix": " It is"}\n' >t
crosshead eval $DATA/TinyStories-656K --task ruler --task-file t
