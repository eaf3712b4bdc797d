#!/bin/bash
for name in a b; do
  mkdir -p $name/model
  echo '{"event": "start", "step": 0, "time": "2026-01-01T00:00:00Z", "version": "0.1.0", "machine": {"kernels": "avx2"}, "config": {"attention": {"type": "gqa"}, "note": "'$name' äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü"}, "options": {"seed": "1", "lr": 0.001}, "parameters": 1000}
{"event": "done", "step": 1, "time": "2026-01-01T00:00:01Z"}' >$name/model/log.jsonl
done
crosshead runs add a/model b/model >/dev/null
crosshead runs
crosshead runs compare 1 2 | grep note
