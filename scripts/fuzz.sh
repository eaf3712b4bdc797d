#!/bin/sh
# Runs every fuzz target of a build: fuzz.sh BUILD_DIRECTORY SECONDS_EACH
# What a run finds new stays in BUILD_DIRECTORY/corpus; an input that fails is left there as crash-*, leak-* or slow-*.
set -eu
build=$1
seconds=$2
seeds=$(dirname "$0")/../tests/fuzz/corpus
registry=$(dirname "$0")/../src/attention/registry.c
found=0
for target in "$build"/tests/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  found=1
  name=$(basename "$target")
  corpus=$build/corpus/${name#fuzz_}
  mkdir -p "$corpus" "$build/findings"
  echo "== $name: $seconds seconds"
  words=$seeds/${name#fuzz_}.dict dictionary=$build/corpus/${name#fuzz_}.dict
  set --
  if [ -f "$words" ]; then # and the names of mechanisms, from where they are registered
    { cat "$words"; sed -n 's/^  X(\([a-z_]*\)).*/"\\"\1\\""/p' "$registry"; } >"$dictionary"
    set -- "-dict=$dictionary"
  fi
  [ -d "$seeds/${name#fuzz_}" ] && set -- "$@" "$seeds/${name#fuzz_}"
  "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/findings/$name-" "$corpus" "$@"
done
[ "$found" = 1 ] || { echo "fuzz.sh: no fuzz targets in $build/tests/fuzz" >&2; exit 1; }
