#!/bin/sh
# Runs clang-tidy on the library and the program: lint.sh BUILD_DIRECTORY JOBS (the build has compile_commands.json).
set -eu
find src -name '*.c' -print0 | xargs -0 -n 4 -P "$2" clang-tidy --quiet -p "$1" 2>&1 | grep -v "warnings generated"
