/* crosshead completion SHELL: prints a completion script. */
#include <string.h>

#include "cli/output.h"
#include "cli/help.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
} arguments;

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  const char *shell = a->positional[0];
  ch_text script = {0};
  if (strcmp(shell, "bash") == 0)
    ch_completion_bash(&script);
  else if (strcmp(shell, "zsh") == 0)
    ch_completion_zsh(&script);
  else if (strcmp(shell, "fish") == 0)
    ch_completion_fish(&script);
  else
    return ch_fail(error, CH_ERROR_ARGUMENT, "shell '%s' is not known; it is one of bash, zsh or fish",
                   shell);
  return ch_print_text(&script, error);
}

const ch_command ch_cmd_completion = {
    .name = "completion",
    .positional = "SHELL",
    .summary = "Print a completion script for bash, zsh or fish.",
    .description = "`make install` installs the scripts. Without it, load the script as the examples show.",
    .examples = "source <(crosshead completion bash)\ncrosshead completion zsh > ~/.zfunc/_crosshead\n"
                "crosshead completion fish > ~/.config/fish/completions/crosshead.fish",
    .arguments_size = sizeof(arguments),
    .run = run,
};
