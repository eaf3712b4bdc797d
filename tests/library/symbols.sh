#!/bin/sh
# Checks that each shared library exports exactly what the public headers declare for it. libcrosshead also exports, under a private
# version, what libcrosshead-train calls: symbols.sh LIBCROSSHEAD LIBCROSSHEAD_TRAIN HEADER_DIRECTORY
set -eu
running=$1 making=$2 headers=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
making_headers=$(sed -n 's/^#include <crosshead\/\(.*\)>/\1/p' "$headers/crosshead_train.h")
failed=0

# A declaration is "CH_API type name(": the last word before the first parenthesis.
declared() { sed -n 's/^CH_API [^(]*[ *]\(ch_[a-z0-9_]*\)(.*/\1/p' "$@" | sort; }
exported() { nm -D --with-symbol-versions --defined-only "$1" | awk '$2 != "A" {print $3}' | sort; }

(cd "$headers" && for header in *.h; do
  if echo "$making_headers" | grep -qx "$header"; then declared "$header" >>"$work/making"; else declared "$header" >>"$work/running"; fi
done)
for library in running making; do
  eval file=\$$library
  [ -s "$work/$library" ] || { echo "no declarations found for $file"; exit 1; }
  exported "$file" | grep -v '@CROSSHEAD_PRIVATE_' | sed 's/@.*//' >"$work/exported"
  sort "$work/$library" | diff - "$work/exported" || { echo "(< is declared for $file but not exported, > is exported but not declared)"; failed=1; }
  echo "$file: $(wc -l <"$work/exported") public symbols"
done

# The private version belongs to one release, has only our names, and has no name that a header declares.
if exported "$making" | grep '@CROSSHEAD_PRIVATE_'; then echo "$making exports private symbols"; failed=1; fi
exported "$running" | sed -n 's/@@*CROSSHEAD_PRIVATE_/ /p' >"$work/private"
[ "$(awk '{print $2}' "$work/private" | sort -u)" = "$(sed -n 's/.*CH_VERSION_STRING "\(.*\)"/\1/p' "$headers/version.h")" ] ||
  { echo "the private symbols of $running are not of this release"; failed=1; }
if awk '{print $1}' "$work/private" | grep -v '^ch_'; then echo "$running exports names that are not ours"; failed=1; fi
exit $failed
