#!/bin/sh
# Checks that the library names settings and never an option of the program: options.sh ARCHIVE
# Style sheets have custom properties, --name: and var(--name). Lines of scripts that pages contain are longer than sentences.
set -eu
found=$(strings -n 4 "$1" | awk 'length < 4000' | sed -E 's/var\(--[a-z][a-z0-9-]*//g; s/--[a-z][a-z0-9-]*(%d)?://g' |
  grep -oE -- '.{0,60}(^|[^-a-zA-Z0-9_])--[a-z].{0,40}' || true)
[ -z "$found" ] || { echo "the library names options:"; echo "$found"; exit 1; }
