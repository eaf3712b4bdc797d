#!/bin/bash
cat >t.json <<'END'
{"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|aa)+(?<!b)$"}, "behavior": "Removed"},
 "model": {"vocab": {"a": 0, "b": 1}, "merges": []}}
END
echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab | crosshead tokenize t.json -
