#!/bin/bash
# Checks that every option of every command occurs in a case that runs the command and on a page of the documentation:
# every_option.sh PROGRAM SOURCE
set -u
program=$1
source=$2
failed=0
complain() {
  echo "$*"
  failed=1
}

# One line per case. An option in a case counts for every command that the case names.
cases=$(for script in "$source"/tests/cli/cases/*/*.sh; do tr '\n' ' ' <"$script" && echo; done)
pages=$(cat "$source"/README.md "$source"/docs/*.md "$source"/docs/*/*.md)
commands=$("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\( [a-z][a-z-]*\)\?\)\(  .*\)\?$/\1/p')
[ -n "$commands" ] || complain "no commands in the help"
while IFS= read -r command; do
  runs=$(grep -E "crosshead $command( |$)" <<<"$cases")
  options=$("$program" $command --help | grep -oE '^  --[a-z0-9-]+' | tr -d ' ' | grep -vx -- --help)
  for option in $options; do
    grep -qE -- "$option([ =;)']|$)" <<<"$runs" || complain "no case of tests/cli/cases runs crosshead $command $option"
    grep -qE -- "$option([^a-z0-9-]|$)" <<<"$pages" || complain "no page of docs names $option of crosshead $command"
  done
done <<<"$commands"
exit $failed
