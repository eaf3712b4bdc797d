#!/bin/bash
# Oniguruma reads a plus after an interval as a repetition.
cat >t.json <<'END'
{"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a{1,3}+"}, "behavior": "Removed"},
 "model": {"vocab": {"a": 0, "b": 1}, "merges": []}}
END
echo aaaaaab | crosshead tokenize t.json -
