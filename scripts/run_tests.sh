#!/bin/bash
# Runs the tests of a build: run_tests.sh BUILD JOBS [OPTION OF ctest]...
# Lists what was skipped, with the reasons, before CTest's own summary.
set -euo pipefail
build=$1 jobs=$2
shift 2

# LastTest.log has the output of every test. A test that is skipped as a whole ends with the reason in its last line. A cmocka program that
# skips a single test prints the reason in the line before "[  SKIPPED ]". The tests that share a reason form one line.
skipped() { # skipped NAMES...: tests that CTest counts as skipped
  awk -v whole=" $* " '
    /^[0-9]+\/[0-9]+ Test: / { test = $3 }
    /^Output:$/ { inside = 1; running = 0; last = "it gave no reason"; next }
    inside && /^<end of output>$/ { inside = 0; if (index(whole, " " test " ")) note(test, last) }
    inside && /^\[ *RUN / { running = 1; last = "it gave no reason"; next }
    inside && /^\[ *(OK|FAILED) \]/ { running = 0 } # the list at the end repeats tests that were skipped above
    inside && /^\[ *SKIPPED \]/ { if (running && !index(whole, " " test " ")) note(test ": " $4, last); running = 0; next }
    inside && /[^-]/ { last = $0 }
    function note(name, why) {
      sub(/^\[? *skipped *\]?:? */, "", why)
      if (!(why in names)) { order[++count] = why; names[why] = name }
      else names[why] = names[why] ", " name
    }
    END {
      if (count) print "Skipped:"
      for (i = 1; i <= count; i++) print "  " order[i] " (" names[order[i]] ")"
      if (count) print ""
    }' "$build/Testing/Temporary/LastTest.log"
}

status=0
summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
held= # one line of awk could do this, but Debian's awk buffers its output
ctest --test-dir "$build" --output-on-failure -j "$jobs" "$@" | while IFS= read -r line; do
  [[ ! $line =~ ^[0-9]+%\ tests\ passed ]] || held=yes
  if [ "$held" ]; then printf '%s\n' "$line" >>"$summary"; else printf '%s\n' "$line"; fi
done || status=$?
skipped $(sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/\1/p' "$summary")
cat "$summary"
exit "$status"
