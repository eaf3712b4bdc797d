#!/bin/bash
# Checks what every command must do: every_command.sh PROGRAM
set -u
program=$1
failed=0
complain() {
  echo "$*"
  failed=1
}

# The names in the list of `crosshead --help`; two-word commands have one space.
commands=$("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\( [a-z][a-z-]*\)\?\)\(  .*\)\?$/\1/p')
[ -n "$commands" ] || complain "no commands in the help"
while IFS= read -r command; do
  help=$("$program" $command --help) || complain "$command --help fails"
  grep -q "^Usage: crosshead $command" <<<"$help" || complain "$command --help has no usage line"
  grep -q "^  --help" <<<"$help" || complain "$command --help does not list --help"
  [ "$help" = "$("$program" help $command)" ] || complain "help $command differs from $command --help"
  long=$(awk 'length > 110' <<<"$help")
  [ -z "$long" ] || complain "$command --help has long lines: $long"
  errors=$("$program" $command --no-such-option 2>&1 >/dev/null)
  [ $? -eq 2 ] || complain "$command --no-such-option does not exit with status 2"
  [[ $errors == "crosshead $command: "* && $errors != *$'\n'* ]] || complain "$command --no-such-option says: $errors"
  "$program" $command --help >/dev/full 2>/dev/null && complain "$command --help on a full disk succeeds"
  "$program" manual | grep -qF ".SS crosshead ${command//-/\\-}" || complain "the manual has no section on $command"
  for shell in bash zsh fish; do
    "$program" completion $shell | grep -q -- "${command##* }" || complain "completion $shell does not know $command"
  done
done <<<"$commands"

"$program" completion bash | bash -n || complain "the bash completion is no bash"
# Completing words as bash would.
complete_words() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _crosshead
  echo "${COMPREPLY[*]}"
}
source <("$program" completion bash)
[[ " $(complete_words crosshead comp) " == *" completion "* ]] || complain "bash does not complete the command"
[[ $(complete_words crosshead completion z) == zsh ]] || complain "bash does not complete the shell"
[[ $(complete_words crosshead help --h) == --help ]] || complain "bash does not complete an option"
# Values come from the program's own lists.
[[ $(complete_words crosshead runs "") == "show compare delete add --help" ]] || complain "bash does not complete runs: $(complete_words crosshead runs "")"
[[ $(complete_words crosshead runs show --so) == --sort ]] || complain "bash does not complete an option of runs show"
[[ $(complete_words crosshead compare --mechanisms mfa_) == mfa_kr ]] || complain "bash does not complete a mechanism"
[[ $(complete_words crosshead compare --mechanisms mha,gq) == mha,gqa ]] || complain "bash does not complete a second mechanism"
[[ $(complete_words crosshead compare --mechanisms gqa,mfa+masa-c) == gqa,mfa+masa-common ]] || complain "bash does not complete what follows a plus"
[[ " $(complete_words crosshead compare --mechanisms mfa+) " == *" mfa+moe "* ]] || complain "bash offers nothing after a plus"
[[ $(complete_words crosshead eval --task hella) == hellaswag ]] || complain "bash does not complete a task"
for mechanism in $("$program" compare --help | sed -n '/^Mechanisms:/,/^$/s/^  \([a-z][a-z_-]*\).*/\1/p'); do
  for shell in bash zsh fish; do
    "$program" completion $shell | grep -e --mechanisms -e "-l mechanisms" | grep -qw -- "$mechanism" || complain "completion $shell does not know $mechanism"
  done
done
for verb in show compare delete add; do
  "$program" completion zsh | grep -q "'$verb:" || complain "zsh does not complete runs $verb"
  "$program" completion fish | grep -q "__crosshead_at runs' -f -a $verb " || complain "fish does not complete runs $verb"
done
exit $failed
