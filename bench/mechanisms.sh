#!/bin/sh
# Training and decoding of every mechanism at one width (bench/configs/mechanisms), with the program that was built.
#   bench/mechanisms.sh train | decode [OPTION OF crosshead bench]...
set -eu
cd "$(dirname "$0")/.."
what=${1:-decode}
[ $# -gt 0 ] && shift
case $what in
train) set -- --prompt 1 --depth 0 --tokens 1 --repeat 2 --train --batch 4 --seq 512 "$@" ;;
decode) set -- --prompt 1 --depth 0,4096,16384 --tokens 16 --repeat 3 "$@" ;;
*) echo "bench/mechanisms.sh: '$what' is neither train nor decode" >&2; exit 2 ;;
esac
for name in mha gqa mqa gta mla egmla mfa mfa_kr diff talking mea kha-linear kha-mlp; do
  echo "== $name"
  ./build/crosshead bench "bench/configs/mechanisms/$name.json" "$@"
done
