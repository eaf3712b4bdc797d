#!/bin/sh
# Runs the tests in tests/python with a build's program and libraries, JOBS at a time: python_tests.sh ENVIRONMENT BUILD JOBS
# They are skipped, with the reason, if the environment could not be created.
set -eu
env=$1
build=$2
jobs=$3
cd "$(dirname "$0")/.."

status=0
scripts/python_env.sh "$env" || status=$?
if [ "$status" = 77 ]; then
  echo "Skipped the Python package and exported models: $(cat "$env/missing")."
  exit 0
fi
[ "$status" = 0 ] || exit "$status"
"$env/bin/pip" install --quiet --force-reinstall --no-deps --config-settings=cmake.define.CROSSHEAD_BUILD="$build" ./python
CROSSHEAD=$build/crosshead "$env/bin/python" -m pytest -q -rs --disable-warnings -p no:cacheprovider -n "$jobs" --maxprocesses 8 tests/python
