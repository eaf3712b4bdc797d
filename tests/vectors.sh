#!/bin/sh
# Checks golden cases of an independent implementation, if they are checked out next to the project; 77 = skipped.
# Cases in PENDING need a mechanism that the program does not have yet. All others must pass.
#   vectors.sh PROGRAM VECTORS PENDING
set -eu
program=$1
vectors=$2
pending=$3
[ -f "$vectors/check.py" ] || { echo "no golden cases at $vectors: skipped"; exit 77; }
command -v python3 >/dev/null || { echo "no python3 to compare golden cases with: skipped"; exit 77; }
"$program" info "$vectors/no model" 2>&1 | grep CROSSHEAD_ISA && { echo "skipped"; exit 77; }
set --
for case in "$vectors"/*/; do
  name=$(basename "$case")
  grep -qx "$name" "$pending" || set -- "$@" "$case"
done
exec python3 "$vectors/check.py" --proposed "$program" "$@"
