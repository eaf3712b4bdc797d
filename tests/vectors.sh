#!/bin/sh
# Golden cases of an independent implementation, where they are checked out beside the project; 77 = skipped.
set -eu
program=$1
vectors=$2
[ -f "$vectors/check.py" ] || { echo "no golden cases at $vectors: skipped"; exit 77; }
command -v python3 >/dev/null || { echo "no python3 to compare golden cases with: skipped"; exit 77; }
exec python3 "$vectors/check.py" --proposed "$program" "$vectors"
