#!/bin/sh
# Checks that the examples in the public headers' comments compile, and that every header with functions has one: examples.sh HEADER_DIRECTORY
# An example is a run of comment lines that are indented by three blanks and has a semicolon at the end of a line. One that
# begins with "static" is a function; any other is the body of one, which may use an open `model` and `session`.
set -eu
headers=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

extract() {
  awk '
    function flush() {
      if (block ~ /;\n/) {
        if (block ~ /^static /) print block
        else printf "static void example_%d(void) {\n%s}\nvoid (*use_%d)(void) = example_%d;\n", ++n, block, n, n
      }
      block = ""
    }
    /^ \*   / { line = substr($0, 6); sub(/ \*\/$/, "", line); block = block line "\n"; next }
    { flush() }
    END { flush() }' "$1"
}

for header in "$headers"/*.h; do
  name=$(basename "$header" .h)
  [ "$name" != version ] || continue
  {
    printf '#include <crosshead/crosshead.h>\n#include <crosshead/crosshead_train.h>\n#include <stdio.h>\n#include <stdlib.h>\n'
    printf 'extern ch_model *model;\nextern ch_session *session;\n'
    extract "$header"
  } >"$work/$name.c"
  grep -q '^void (\*use_1)' "$work/$name.c" || { echo "$name.h has no example"; failed=1; }
  "${CC:-cc}" -std=c17 -Wall -Wextra -Wno-unused-function -Werror -O1 -I"$(dirname "$headers")" -c "$work/$name.c" -o "$work/$name.o" || failed=1
done
exit $failed
