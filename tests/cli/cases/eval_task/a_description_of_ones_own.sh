#!/bin/bash
# A description of one's own.
cat >mine.json <<'END'
{"task": "mine", "output_type": "multiple_choice", "metrics": ["acc"], "forms": [{"fields": ["q",
 "r"], "doc_to_text": "{{ q }}", "doc_to_choice": ["yes", "no"], "doc_to_target": "{{ r }}"}]}
END
printf 'q\tr\nIs it?\t0\nIs it not?\t1\n' >q.tsv
crosshead eval $DATA/TinyStories-656K --task mine.json --task-file q.tsv --json
