#!/bin/bash
# shellcheck disable=SC2086 # options are several words
# Tests texts, tasks and compression over ranks against one process: evals.sh PROGRAM SOURCE. Exit status 77 means skipped: no MPI.
set -eu
. "$(dirname "$0")/common.sh" "$1" "$2" yes
model=$source/tests/data/TinyStories-656K tasks=$source/tests/data/tasks

figures() { sed 's/"\(scoring_\)*seconds": [0-9.e-]*//g' out; }
# same N OPTIONS: N ranks have the figures of one process, to the last digit.
same() {
  local n=$1
  shift
  alone eval "$model" --json "$@" || { show; fail "one process: $*"; }
  figures >expected
  over "$n" eval "$model" --json "$@" || { show; fail "$n ranks: $*"; }
  figures | diff expected - || fail "the figures of $n ranks differ: $*"
}
head -c 12000 text >short
same 3 --text short --window 256 --stride 64 --cache-dtype q8_0
same 3 --task mmlu --task-file "$tasks/mmlu/test" --fewshot 2 --fewshot-file "$tasks/mmlu/dev"
same 4 --task ruler:niah_multikey_3 --length 480,512 --limit 2
over 2 eval "$model" --task hellaswag --task-file "$tasks/hellaswag.jsonl" --log-samples s.jsonl --runs kept.sqlite || { show; fail "samples"; }
[ "$(wc -l <s.jsonl)" = "$(wc -l <"$tasks/hellaswag.jsonl")" ] || fail "not all samples are there"
over 2 eval "$model" --text nowhere && fail "a text that is not there"
once "cannot open nowhere"
usual=$(words "$program" eval "$model" --text short)
unequal "$usual" "$usual --window 64" && fail "ranks with other options"
once "rank 1 has other options than rank 0"
head -c 6000 text >other
unequal "$usual" "$(words "$program" eval "$model" --text other)" && fail "ranks with other texts"
once "rank 1 has another text, model or other options than rank 0"
# same_model N OPTIONS: N ranks write the model, and report the figures, of one process.
report() { sed 's/"[a-z_]*seconds": [0-9.e-]*//g; s/"decode_tokens_per_second": [0-9.e-]*//; /"command"/d; /"created"/d' small/report.json; }
same_model() {
  local n=$1
  shift
  alone compress "$model" --calibration text --out small --force "$@" || { show; fail "one process: $*"; }
  report >expected
  cp small/model.safetensors expected.safetensors
  over "$n" compress "$model" --calibration text --out small --force "$@" || { show; fail "$n ranks: $*"; }
  once "small: the model" # ranks that know nothing of each other would each say so
  report | diff expected - || fail "the report of $n ranks differs: $*"
  cmp expected.safetensors small/model.safetensors || fail "the model of $n ranks differs: $*"
}
same_model 3 --method masa --ratio 0.2
same_model 2 --method mea --component-heads 2 --budget 50%
usual=$(words "$program" compress "$model" --method svd-llm --calibration text --out other-small)
unequal "$usual --ratio 0.2" "$usual --ratio 0.3" && fail "ranks with other options compress"
once "rank 1 has other options than rank 0"
[ ! -e other-small ] || fail "a failed compression leaves a directory"
# A signal to one rank is for all.
timeout 100 "$MPIRUN" -n 3 "$program" eval "$model" --text "$source/data/tinyshakespeare.txt" --window 128 --stride 1 >out 2>err &
job=$!
for ((i = 0; i < 200; i++)); do grep -q "whole text" out err 2>/dev/null && break; sleep 0.05; done
kill -INT "$(pgrep -f "$program eval .* --stride 1\$" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$program" ] && echo "$p"; done | tail -1)"
status=0
wait $job || status=$?
[ $status = 130 ] || { show; fail "SIGINT ends with $status"; }
once "interrupted"
