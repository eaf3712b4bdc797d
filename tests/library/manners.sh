#!/bin/sh
# Checks that a library does not print, exit, handle signals or have writable state: manners.sh ARCHIVE
set -eu
failed=0
calls=$(nm -u "$1" | awk '$1 == "U" {print $2}' | sort -u |
  grep -xE '(_|quick_)?exit|abort|v?printf|puts|putchar|std(in|out|err)|perror|signal|sigaction|setlocale|s?rand|setenv|strtok|system|popen|fork' || true)
[ -z "$calls" ] || { echo "the library uses: $calls"; failed=1; }
# Constant tables of pointers lie in .data.rel.ro; the compiler's own names for critical sections begin with .gomp.
state=$(objdump -t "$1" | grep -E '[[:space:]](\.t?data|\.t?bss|\*COM\*)[.[:space:]]' | grep -vE '\.data\.rel\.ro|\.gomp|[[:space:]]0{16} \.' || true)
[ -z "$state" ] || { echo "the library keeps writable state:"; echo "$state"; failed=1; }
exit $failed
