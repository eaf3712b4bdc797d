#!/bin/bash
# Checks that a folder of src/ includes only from itself and the floors that docs/architecture.md lists above it: floors.sh SOURCE
#
# It also checks that files of src have different names, so that a name in a backtrace or a comment identifies one file.
#
# A floor may be a subfolder (tensor/kernels/rows). A folder that is not listed belongs to the longest path above it that is.
set -eu
cd "$1"
floors=$(awk '/^## The floors/ {section = 1} section && /^```/ {fence++; next} section && fence == 1 {print $1}' docs/architecture.md)
[ "$(wc -w <<<"$floors")" -gt 5 ] || { echo "no list of floors in docs/architecture.md"; exit 1; }
failed=0
for floor in $floors; do
  [ -d "src/$floor" ] || { echo "docs/architecture.md lists src/$floor, which is no folder"; failed=1; }
done
grep -rnE '^ *#include "[a-z_]+/' src --include='*.[ch]' | awk -v floors="$floors" '
  function floor_of(path) {
    while (sub("/[^/]*$", "", path)) if (path in height) return path
    return ""
  }
  BEGIN {
    count = split(floors, names)
    for (i = 1; i <= count; i++) height[names[i]] = i
  }
  {
    split($0, parts, "\"")
    file = $0; sub("^src/", "", file); sub(":.*", "", file)
    own = floor_of(file); used = floor_of(parts[2])
    if (own == "") print "src/" file " is on no floor of docs/architecture.md"
    else if (used == "") print "src/" file " includes " parts[2] ", which is on no floor"
    else if (height[used] > height[own]) print "src/" file " includes upwards: " parts[2]
    else next
    failed = 1
  }
  END { exit failed }' || failed=1
names=$(find src -name '*.[ch]' -printf '%f\n' | sort | uniq -d)
[ -z "$names" ] || { echo "several files of src have these names:" $names; failed=1; }
exit $failed
