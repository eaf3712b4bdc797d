#!/bin/bash
# Runs the cases of one file against the program: run.sh PROGRAM TEST_DATA CASES
#
# A case is a line "$ COMMAND", run by bash in an empty directory with `crosshead` on the path and $DATA naming
# tests/data, followed by what must come of it:
#   status N      the exit status (0 when not said)
#   out PATTERN   a line of standard output that matches an extended regular expression
#   err PATTERN   the same of standard error
#   file NAME     a file that must exist and not be empty afterwards
#   unsanitized   a long case of code that unit tests run too: left out under sanitizers, where SANITIZED is set
# A case that fails (status not 0) must say so in exactly one line on standard error that begins with "crosshead", and
# print nothing else unless `out` says so; one that succeeds must print nothing on standard error unless `err` says so.
set -u
export LC_ALL=C.UTF-8 # what grep takes for a character
program=$(realpath "$1")
DATA=$(realpath "$2")
cases=$3
export DATA
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$program" "$scratch/bin/crosshead"
PATH=$scratch/bin:$PATH
total=0 failed=0

complain() {
  printf '%s: $ %s\n  %s\n' "$(basename "$cases")" "$command" "$1"
  case_failed=1
}

# Holds the command against its expectations, collected in status, outs, errs, files.
judge() {
  [ -n "$command" ] || return
  [ $unsanitized = 0 ] || [ -z "${SANITIZED:-}" ] || return 0
  total=$((total + 1))
  case_failed=0
  local directory=$scratch/$total got
  mkdir "$directory"
  (cd "$directory" && timeout 120 bash -c "$command" >../out 2>../err </dev/null)
  got=$?
  [ $got -eq "$status" ] || complain "exit status $got where $status was expected"
  for pattern in "${outs[@]}"; do
    grep -Eq -- "$pattern" "$scratch/out" || complain "standard output has no line like: $pattern"
  done
  for pattern in "${errs[@]}"; do
    grep -Eq -- "$pattern" "$scratch/err" || complain "standard error has no line like: $pattern"
  done
  for name in "${files[@]}"; do
    [ -s "$directory/$name" ] || complain "the file $name is missing or empty"
  done
  if [ "$status" -ne 0 ]; then
    { [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q '^crosshead' "$scratch/err"; } ||
      complain "standard error is not one line that begins with 'crosshead'"
    [ ${#outs[@]} -gt 0 ] || [ ! -s "$scratch/out" ] || complain "standard output is not empty"
  elif [ ${#errs[@]} -eq 0 ] && [ -s "$scratch/err" ]; then
    complain "standard error is not empty"
  fi
  if [ $case_failed -ne 0 ]; then
    failed=$((failed + 1))
    sed 's/^/  stdout: /' "$scratch/out" | head -n 20
    sed 's/^/  stderr: /' "$scratch/err" | head -n 20
  fi
}

command=
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
  '$ '*) judge; command=${line#'$ '} status=0 outs=() errs=() files=() unsanitized=0 ;;
  'status '*) status=${line#status } ;;
  'out '*) outs+=("${line#out }") ;;
  'err '*) errs+=("${line#err }") ;;
  'file '*) files+=("${line#file }") ;;
  unsanitized) unsanitized=1 ;;
  '' | '#'*) ;;
  *) echo "$cases: cannot read the line: $line"; exit 2 ;;
  esac
done <"$cases"
judge
echo "$total cases, $failed failed"
[ $failed -eq 0 ] && [ $total -gt 0 ]
