#!/bin/sh
# The shared library exports exactly what the public headers declare: symbols.sh LIBRARY HEADER_DIRECTORY
set -eu
declared=$(mktemp)
exported=$(mktemp)
trap 'rm -f "$declared" "$exported"' EXIT
# A declaration is "CH_API type name(": the last word before the first parenthesis.
sed -n 's/^CH_API [^(]*[ *]\(ch_[a-z0-9_]*\)(.*/\1/p' "$2"/*.h | sort >"$declared"
nm -D --defined-only "$1" | awk '{print $3}' | sort >"$exported"
[ -s "$declared" ] || { echo "no declarations found in $2"; exit 1; }
if ! diff "$declared" "$exported"; then
  echo "(< is declared with CH_API but not exported, > is exported but not declared)"
  exit 1
fi
echo "$(wc -l <"$exported") symbols"
