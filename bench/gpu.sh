#!/bin/sh
# Measures how fast a GPU trains 16 mechanisms and transformers' Llama, and compares four mechanisms on it:
#   bench/gpu.sh [--out DIR] [--device cuda] [OPTION OF gpu.py]...
# It needs a GPU, a Python with PyTorch and transformers (PYTHON, else python3), and the wheel of `make wheel` in that Python.
# --device cpu --tiny tests everything except the speed. Status 1: a model failed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
out=build/gpu
device=cuda
last=
size="--params 10M --tokens 1M --batch 16 --seq 512"
for word; do
  case $last in
  --out) out=$word ;;
  --device) device=$word ;;
  esac
  [ "$word" = --tiny ] && size="--params 100k --tokens 4k --batch 4 --seq 64"
  last=$word
done
failed=0
"$python" bench/gpu.py "$@" --out "$out" --device "$device" || failed=1
echo "## A comparison"
# shellcheck disable=SC2086
"$python" -m crosshead compare --data data/tinyshakespeare.txt --mechanisms mha,gqa,mla,gdn $size --compute bf16 \
  --engine pytorch --device "$device" --python "$python" --out "$out/compare"
exit "$failed"
