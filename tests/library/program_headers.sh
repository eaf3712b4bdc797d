#!/bin/bash
# Checks that the program uses the library through its public headers: program_headers.sh SOURCE
#
# A file of src/cli or src/serve may include public headers (<crosshead/...>), headers of these two and of src/base, and other
# libraries' headers.
# What its own headers include counts too.
set -eu
cd "$1/src"

# direct[file]: the internal headers that it includes; own[file]: the headers of the program.
declare -A direct own
for file in cli/*.[ch] serve/*.[ch]; do
  included=$(sed -n 's/^ *# *include *[<"]\([a-z_]*\/[^>"]*\)[>"].*/\1/p' "$file")
  direct[$file]=$(for i in $included; do case $i in cli/* | serve/* | base/* | crosshead/* | sys/*) ;; *) [ ! -e "$i" ] || echo "$i" ;; esac; done)
  own[$file]=$(for i in $included; do case $i in cli/* | serve/*) echo "$i" ;; esac; done)
done
[ ${#direct[@]} -gt 50 ] || { echo "the program has ${#direct[@]} files only; is $1 the source?"; exit 1; }

# The internal headers that FILE reaches, each with the header of the program that brings it.
reached() {
  local -A seen=()
  local left=("$1") file i
  while [ ${#left[@]} -gt 0 ]; do
    file=${left[0]} left=("${left[@]:1}")
    [ -z "${seen[$file]:-}" ] || continue
    seen[$file]=1
    for i in ${direct[$file]}; do echo "$i (in $file)"; done
    left+=(${own[$file]})
  done
}

failed=0
for file in "${!direct[@]}"; do
  internal=$(reached "$file")
  [ -n "$internal" ] || continue
  echo "src/$file includes internal headers; use <crosshead/...>:"
  echo "$internal" | sed 's/^/    /'
  failed=1
done
exit $failed
