#!/bin/bash
printf 'It was a cold day in the old town. The harbour master counted eleven boats before breakfast. He wrote the number down. ' >t
crosshead eval $DATA/TinyStories-656K --task ruler:niah_single_2@400 --task-file t --limit 1 \
    --log-samples s.jsonl
grep -c 'The harbour master' s.jsonl
