#!/bin/bash
# Checks that every public function of libcrosshead-train is defined in src/api: public_functions.sh LIST HEADER_DIRECTORY
#
# LIST names the objects, one per line. The headers of that library are those that crosshead_train.h includes. What a folder below
# src/api calls has a name of its own there, so that src/api is all of the public functions, and one place to look for them.
set -eu
declared=$(sed -n 's/^#include <crosshead\/\(.*\)>/\1/p' "$2/crosshead_train.h" | (cd "$2" && xargs sed -n 's/^CH_API [^(]*[ *]\(ch_[a-z0-9_]*\)(.*/\1/p'))
[ "$(wc -w <<<"$declared")" -gt 100 ] || { echo "no declarations found in the headers of $2"; exit 1; }
xargs nm -A -P -g --defined-only <"$1" | awk -v declared="$declared" '
  BEGIN {
    count = split(declared, names)
    for (i = 1; i <= count; i++) public[names[i]] = 1
  }
  $2 in public && $3 == "T" {
    file = $1; sub(":$", "", file); sub("^.*[.]dir/([.]/)?", "", file); sub("[.]o$", "", file)
    found++
    if (file ~ "^api/") next
    print "src/" file " defines the public function " $2 "; define it in src/api"
    failed = 1
  }
  END {
    if (found < 100) { print "only " found + 0 " public functions found in the objects"; failed = 1 }
    exit failed
  }'
