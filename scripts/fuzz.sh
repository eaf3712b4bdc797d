#!/bin/sh
# Runs the fuzz targets of a build, JOBS at a time: fuzz.sh BUILD_DIRECTORY SECONDS_EACH [JOBS [TARGET]]
# Prints the output of each target when the target ends. Fails if any target fails.
# New inputs stay in BUILD_DIRECTORY/corpus. An input that fails is left in BUILD_DIRECTORY/findings as TARGET-crash-*,
# TARGET-leak-*, TARGET-timeout-*, TARGET-oom-* or TARGET-slow-unit-*.
set -eu
build=$1 seconds=$2 jobs=${3:-1} target=${4:-}
seeds=$(dirname "$0")/../tests/fuzz/corpus
registry=$(dirname "$0")/../src/attention/registry.c
mkdir -p "$build/corpus" "$build/findings"

if [ -z "$target" ]; then
  set -- "$build"/tests/fuzz/fuzz_*
  [ -x "$1" ] || { echo "fuzz.sh: no fuzz targets in $build/tests/fuzz" >&2; exit 1; }
  for path in "$@"; do
    [ -f "$path" ] && [ -x "$path" ] && basename "$path"
  done | xargs -P "$jobs" -I NAME sh "$0" "$build" "$seconds" 1 NAME || { echo "fuzz.sh: a target failed" >&2; exit 1; }
  exit 0
fi

subject=${target#fuzz_}
output=$build/findings/$target.log
words=$seeds/$subject.dict dictionary=$build/corpus/$subject.dict
mkdir -p "$build/corpus/$subject"
set --
if [ -f "$words" ]; then # the registry adds the names of mechanisms
  { cat "$words"; sed -n 's/^  X(\([a-z_]*\)).*/"\\"\1\\""/p' "$registry"; } >"$dictionary"
  set -- "-dict=$dictionary"
fi
[ -d "$seeds/$subject" ] && set -- "$@" "$seeds/$subject"
result=0
"$build/tests/fuzz/$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
  -max_len=65536 -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/findings/$target-" \
  "$build/corpus/$subject" "$@" >"$output" 2>&1 || result=$?
if [ "$result" = 0 ]; then verdict=passed; else verdict="FAILED with exit status $result"; fi
{ echo "== $target, $seconds seconds: $verdict"; cat "$output"; } >"$output.whole"
cat "$output.whole" # in one piece: other targets print to the same place
rm "$output.whole"
exit "$result"
