#!/bin/bash
# Checks that no two source files call each other, directly or through others: call_circles.sh LIST
#
# LIST names the objects, one per line. Their symbols say who calls whom. A kernel is compiled several times, into several
# objects of one source.
set -eu
# Calls that close a circle and may: what is recursive in the language that the code reads, or in the program's own help.
allowed="
template/template_evaluate.c>template/template_fill.c:  an expression calls a macro, whose body has statements
template/template_tests.c>template/template_functions.c:  a test of case applies a filter, and filters apply tests by name
template/template_texts.c>template/template_functions.c:  a method of texts joins a list as the filter does
cli/cmd_help.c>cli/commands.c:  help is one of the commands that it lists,
cli/help.c>cli/commands.c:  so are the pages,
cli/manual.c>cli/commands.c:  the manual
cli/completion.c>cli/commands.c:  and shell completion
"
circles=$(xargs nm -A -P -g <"$1" | awk -v allowed="$allowed" '
  BEGIN {
    count = split(allowed, lines, "\n")
    for (i = 1; i <= count; i++) { sub(":.*", "", lines[i]); open[lines[i]] = 1 }
  }
  {
    file = $1; sub(":$", "", file); sub("^.*[.]dir/([.]/)?", "", file); sub("[.]o$", "", file)
    if ($3 == "U") { users++; user[users] = file; used[users] = $2 }
    else defined[$2] = file
  }
  END {
    for (i = 1; i <= users; i++) {
      to = defined[used[i]]; from = user[i]
      if (to == "" || to == from || to ~ /embedded/ || (from ">" to) in open) continue
      if (!((from, to) in known)) print from, to
      known[from, to] = 1
    }
  }' | tee "$1.calls" | tsort 2>&1 >"$1.order" || true)
[ "$(wc -l <"$1.calls")" -gt 1000 ] || { echo "no calls found in the objects of $1"; exit 1; }
[ -z "$circles" ] || { echo "source files call each other in a circle:"; sed 's/^tsort: *//' <<<"$circles"; exit 1; }
