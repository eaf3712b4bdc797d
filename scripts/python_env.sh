#!/bin/sh
# Makes a virtual environment with PyTorch and transformers for the tests in tests/python: python_env.sh DIR
# Packages come from PyPI; torch's CPU build where its own index can be reached, since it is ten times smaller.
set -eu
dir=$1
here=$(dirname "$0")
requirements=$here/../tests/python/requirements.txt

[ -e "$dir/complete" ] && cmp -s "$requirements" "$dir/complete" && exit 0
"$here/deps.sh" python
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --retries 0 --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null ||
  "$dir/bin/pip" install --quiet torch
"$dir/bin/pip" install --quiet -r "$requirements"
cp "$requirements" "$dir/complete"
