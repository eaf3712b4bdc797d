#!/bin/sh
# Measures training or decoding of every configuration in a folder (all of one width; by default bench/configs/mechanisms)
# with the program in build.
#   bench/mechanisms.sh train | decode [FOLDER] [OPTION OF crosshead bench]...
set -eu
cd "$(dirname "$0")/.."
what=${1:-decode}
[ $# -gt 0 ] && shift
folder=bench/configs/mechanisms
case ${1:-} in */*) folder=$1; shift ;; esac
case $what in
train) set -- --prompt 1 --depth 0 --tokens 1 --repeat 2 --train --batch 4 --seq 512 "$@" ;;
decode) set -- --prompt 1 --depth 0,4096,16384 --tokens 16 --repeat 3 "$@" ;;
*) echo "bench/mechanisms.sh: '$what' is neither train nor decode" >&2; exit 2 ;;
esac
for config in "$folder"/*.json; do
  echo "== $(basename "$config" .json)"
  ./build/crosshead bench "$config" "$@"
done
