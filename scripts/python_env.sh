#!/bin/sh
# Creates a virtual environment with PyTorch and transformers for the tests in tests/python: python_env.sh DIR
# It uses python3's own PyTorch if there is one. Otherwise PyTorch comes from PyPI, as its CPU build if that index can be reached,
# because it is ten times smaller. If the environment cannot be created, DIR/missing says why and the exit status is 77.
set -eu
dir=$1
here=$(dirname "$0")
requirements=$here/../tests/python/requirements.txt

[ -e "$dir/complete" ] && cmp -s "$requirements" "$dir/complete" && exit 0
mkdir -p "$dir"
rm -f "$dir/missing"
missing() {
  echo "$1" >"$dir/missing"
  echo "python_env.sh: $1" >&2
  exit 77
}
"$here/deps.sh" python || missing "python3 and its venv module could not be installed"
with=
python3 -c 'import torch' 2>/dev/null && with=--system-site-packages
[ -x "$dir/bin/python" ] || python3 -m venv $with "$dir" || missing "python3 makes no virtual environment"
if [ -z "$with" ]; then
  "$dir/bin/pip" install --quiet --retries 0 --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null ||
    "$dir/bin/pip" install --quiet torch || missing "PyTorch could not be installed from PyPI"
fi
"$dir/bin/pip" install --quiet -r "$requirements" || missing "the packages of tests/python/requirements.txt could not be installed"
cp "$requirements" "$dir/complete"
