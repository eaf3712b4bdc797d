#!/bin/bash
# shellcheck disable=SC2086 # options are several words
# Texts and tasks over ranks, beside one process: evals.sh PROGRAM SOURCE. Exit status 77 means skipped: no MPI.
set -eu
. "$(dirname "$0")/common.sh" "$1" "$2" yes
model=$source/tests/data/TinyStories-656K tasks=$source/tests/data/tasks

figures() { sed 's/"\(scoring_\)*seconds": [0-9.e-]*//g' out; }
# same N OPTIONS: N ranks have the figures of one process, to the last digit.
same() {
  local n=$1
  shift
  alone eval "$model" --json "$@" || { cat out; fail "one process: $*"; }
  figures >expected
  over "$n" eval "$model" --json "$@" || { cat out; fail "$n ranks: $*"; }
  figures | diff expected - || fail "the figures of $n ranks differ: $*"
}
head -c 12000 text >short
same 3 --text short --window 256 --stride 64 --cache-dtype q8_0
same 3 --task mmlu --task-file "$tasks/mmlu/test" --fewshot 2 --fewshot-file "$tasks/mmlu/dev"
same 4 --task ruler:niah_multikey_3 --length 480,512 --limit 2
over 2 eval "$model" --task hellaswag --task-file "$tasks/hellaswag.jsonl" --log-samples s.jsonl --runs kept.sqlite || { cat out; fail "samples"; }
[ "$(wc -l <s.jsonl)" = "$(wc -l <"$tasks/hellaswag.jsonl")" ] || fail "not all samples are there"
over 2 eval "$model" --text nowhere && fail "a text that is not there"
once "cannot open nowhere"
timeout 60 "$MPIRUN" -n 1 "$program" eval "$model" --text short : -n 1 "$program" eval "$model" --text short --window 64 >out 2>&1 &&
  fail "ranks with other options"
once "rank 1 has other options than rank 0"
head -c 6000 text >other
timeout 60 "$MPIRUN" -n 1 "$program" eval "$model" --text short : -n 1 "$program" eval "$model" --text other >out 2>&1 &&
  fail "ranks with other texts"
once "rank 1 has another text, model or other options than rank 0"
# A signal to one rank is for all.
timeout 100 "$MPIRUN" -n 3 "$program" eval "$model" --text "$source/data/tinyshakespeare.txt" --window 128 --stride 1 >out 2>&1 &
job=$!
for ((i = 0; i < 200; i++)); do grep -q "whole text" out && break; sleep 0.05; done
kill -INT "$(pgrep -f "$program eval .* --stride 1\$" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$program" ] && echo "$p"; done | tail -1)"
status=0
wait $job || status=$?
[ $status = 130 ] || { cat out; fail "SIGINT ends with $status"; }
once "interrupted"
