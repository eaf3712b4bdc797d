#!/bin/bash
options='{"seed": "1", "lr": 0.001}' config='{"attention": {"type": "gqa"}}'
for name in native one other; do
  mkdir -p $name/model
  case $name in
  native) made='"machine": {"kernels": "avx2"}' ;;
  one) made='"engine": "pytorch", "machine": {"device": "cuda:1", "name": "NVIDIA H200", "torch": "2.11.0"}' ;;
  other) made='"engine": "pytorch", "machine": {"device": "cpu", "name": "cpu", "torch": "2.11.0"}' ;;
  esac
  echo '{"event": "start", "step": 0, "time": "2026-01-01T00:00:00Z", "version": "0.1.0", '"$made"', "config": '"$config"', "options": '"$options"', "parameters": 1000}
{"event": "done", "step": 1, "time": "2026-01-01T00:00:01Z"}' >$name/model/log.jsonl
done
crosshead runs add native/model one/model other/model >/dev/null
crosshead runs show 1 | grep -E 'machine.(engine|device|torch)'
crosshead runs show 2 | grep -E 'machine.(engine|device|device_name|torch)'
crosshead runs compare 1 3 | grep machine
crosshead runs
crosshead runs machine.engine=pytorch | awk '{ print $1 }'
