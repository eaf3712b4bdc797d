#!/bin/bash
# Runs command-line cases: run.sh [--update] PROGRAM TEST_DATA CASE.sh|FOLDER...
#
# A case is a script. bash runs it in an empty directory with `crosshead` on the path and $DATA naming tests/data.
# Files next to it have the expected results:
#   CASE.sh.stdout.exact   standard output
#   CASE.sh.stdout.glob    standard output, where * is any text in a line, # a number, several blanks are one or more, and
#                          a line ... is any number of lines
#   CASE.sh.stderr.exact, CASE.sh.stderr.glob   standard error in the same ways
#   CASE.sh.exit           the exit status, which is 0 without this file
# In these files $DATA replaces the path of the test data, and $PWD the directory of the case.
# Without a file, standard output may be anything and standard error must be empty. If the exit status is not 0, standard
# error must be one line that begins with "crosshead", and standard output must be empty unless a file says otherwise.
# A case that ends with status 77 is skipped; its output says why.
# A line "# unsanitized: REASON" in a case skips it where SANITIZED is set.
#
# --update writes the real output into the .exact files and the exit status into .exit. Read the difference before a commit.
set -u
export LC_ALL=C.UTF-8
here=$(realpath "$(dirname "$0")")
update=0
[ "$1" != --update ] || { update=1; shift; }
program=$(realpath "$1")
DATA=$(realpath "$2")
shift 2
export DATA
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$program" "$scratch/bin/crosshead"
PATH=$scratch/bin:$PATH
total=0 failed=0

complain() {
  [ $case_failed = 1 ] || echo "FAILED: ${case#"$PWD"/}"
  case_failed=1
  echo "  $1"
}

# Compares standard output or standard error ($1) with the file that expects it. Returns 1 if there is no such file.
compare() {
  local got=$scratch/$1 expected=$case.$1
  if [ -e "$expected.exact" ]; then
    [ $update = 0 ] || cp "$got" "$expected.exact"
    diff -u --label "$1 expected" --label "$1 of the program" "$expected.exact" "$got" >"$scratch/difference"
  elif [ -e "$expected.glob" ]; then
    LC_ALL=C awk -v glob="$expected.glob" -f "$here/glob.awk" "$got" |
      diff -u --label "$1 expected" --label "$1 of the program" "$expected.glob" - >"$scratch/difference"
  else
    return 1
  fi || complain "$(head -n 40 "$scratch/difference" | sed '2,$s/^/  /')"
}

run_case() {
  [ -z "${SANITIZED:-}" ] || ! grep -q '^# unsanitized' "$case" || return
  local directory=$scratch/case status=0 got stream
  mkdir "$directory"
  (cd "$directory" && timeout 120 bash "$case" >../stdout 2>../stderr </dev/null)
  got=$?
  if [ $got = 77 ]; then
    echo "skipped: $case: $(cat "$scratch/stdout")"
    return
  fi
  total=$((total + 1))
  case_failed=0
  for stream in stdout stderr; do
    sed -i -e "s|$DATA|\$DATA|g; s|$directory|\$PWD|g" -e '$a\' "$scratch/$stream" # the last line ends with a newline too
  done
  [ ! -e "$case.exit" ] || status=$(cat "$case.exit")
  if [ $update = 1 ] && [ $got != "$status" ]; then
    rm -f "$case.exit"
    [ $got = 0 ] || echo $got >"$case.exit"
    status=$got
  fi
  [ $got = "$status" ] || complain "the exit status is $got where $status is expected"
  compare stdout || [ "$status" = 0 ] || [ ! -s "$scratch/stdout" ] || complain "standard output is not empty: $(head -n 5 "$scratch/stdout")"
  compare stderr || [ ! -s "$scratch/stderr" ] || [ "$status" != 0 ] || complain "standard error is not empty: $(head -n 5 "$scratch/stderr")"
  if [ "$status" != 0 ]; then
    { [ "$(wc -l <"$scratch/stderr")" = 1 ] && grep -q '^crosshead' "$scratch/stderr"; } ||
      complain "standard error is not one line that begins with 'crosshead': $(head -n 5 "$scratch/stderr")"
  fi
  failed=$((failed + case_failed))
}

for path; do
  if [ -d "$path" ]; then cases=("$path"/*.sh); else cases=("$path"); fi
  for case in "${cases[@]}"; do
    case=$(realpath "$case")
    run_case
    [ ! -d "$scratch/case" ] || chmod -R u+w "$scratch/case"
    rm -rf "$scratch/case"
  done
done
echo "$total cases, $failed failed"
[ $failed = 0 ] && [ $total -gt 0 ]
