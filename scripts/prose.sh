#!/bin/sh
# Counts idioms in comments, messages and pages that a reader has to decode: prose.sh [-v]
# Prints one line per idiom: its number and its rate per 100,000 characters of that text. With -v, every place.
# It never fails: the numbers should fall, but a word can be right in its place.
set -eu
cd "$(dirname "$0")/.."
verbose=${1:-}

# FILE:LINE:TEXT of every line of a comment in C; the comment's opening stays on its line as "/*" or "//".
comments() {
  find include src tests bench examples -name '*.[ch]' -print0 | sort -z | xargs -0 awk '
    FNR == 1 { inside = 0 }
    {
      line = $0; text = ""
      while (line != "") {
        if (inside) {
          end = index(line, "*/")
          if (end) { text = text substr(line, 1, end - 1); line = substr(line, end + 2); inside = 0 }
          else { text = text line; line = "" }
        } else {
          start = match(line, /\/\*|\/\/|"([^"\\]|\\.)*"/)
          if (!start) break
          piece = substr(line, RSTART, RLENGTH)
          if (piece == "//") { text = text substr(line, RSTART); line = "" }
          else if (piece == "/*") { text = text "/*"; line = substr(line, RSTART + 2); inside = 1 }
          else line = substr(line, RSTART + RLENGTH)
        }
      }
      if (text != "") print FILENAME ":" FNR ":" text
    }'
}

# FILE:LINE:TEXT of every line of a page, without blocks of commands and output.
pages() {
  find README.md CONTRIBUTING.md docs -name '*.md' -print0 | sort -z | xargs -0 awk '
    FNR == 1 { block = 0 }
    /^ *```/ { block = !block; next }
    !block { print FILENAME ":" FNR ":" $0 }'
}

# FILE:LINE:TEXT of every string of the library and the program that has a blank: messages and help, without the code around them.
messages() {
  find src -name '*.c' -print0 | sort -z | xargs -0 awk '
    /^ *(#include|\/\*|\*)/ { next }
    {
      line = $0; text = ""
      while (match(line, /"([^"\\]|\\.)*"/)) {
        piece = substr(line, RSTART + 1, RLENGTH - 2); line = substr(line, RSTART + RLENGTH)
        if (piece ~ / /) text = text " " piece
      }
      if (text != "") print FILENAME ":" FNR ":" text
    }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
comments >"$work/comments"
pages >"$work/pages"
messages >"$work/messages"

# count TEXT NAME PATTERN
count() {
  grep -E "$3" "$work/$1" >"$work/found" || true
  characters=$(sed 's/^[^:]*:[0-9]*://' "$work/$1" | wc -c)
  awk -v n="$(wc -l <"$work/found")" -v c="$characters" -v what="$2" 'BEGIN { printf "%-34s %5d  %6.1f\n", what, n, n * 1e5 / c }'
  [ "$verbose" != -v ] || sed 's/^/    /' "$work/found"
}

printf '%-34s %5s  %s\n' "" "lines" "per 100,000 characters"
for text in comments messages pages; do
  echo "$text"
  if [ "$text" = comments ]; then
    count comments "  opens with Whether" '(/\*|//) *Whether\b'
    count comments "  opens with What" '(/\*|//) *What\b'
    count comments "  opens with The same" '(/\*|//) *The same\b'
    count comments "  a lone */ ends it" '^[^:]*:[0-9]*: *$'
  fi
  for word in 'told' 'asked' 'kept' 'lies?' 'stands?' 'beside' 'made' 'takes?' 'goes on' 'likewise' 'by itself'; do
    count "$text" "  $(echo "$word" | sed 's/?//')" "^[^:]*:[0-9]*:.*\\b$word\\b"
  done
  count "$text" "  X, which Y, that Z" ',? which [^,.]*,? that '
done
echo "lines over 120 columns"
find include src tests bench examples -name '*.[ch]' -print0 | xargs -0 awk 'length > 120 { n++ } END { printf "%-34s %5d\n", "  C", n }'
