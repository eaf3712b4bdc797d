/* crosshead help [COMMAND]: explains the program or a command. */

#include "cli/help.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
} arguments;

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  if (!a->positional[0]) {
    ch_print_program_help(stdout);
    return CH_OK;
  }
  char *words[] = {(char *)a->positional[0], (char *)a->positional[1]};
  int count = words[1] ? 2 : 1;
  const ch_command *command = NULL;
  if (ch_find_command(count, words, &command) == count) {
    ch_print_command_help(command, stdout);
    return CH_OK;
  }
  if (count == 1 && ch_is_family(words[0])) {
    ch_print_family_help(words[0], stdout);
    return CH_OK;
  }
  return ch_fail(error, CH_ERROR_ARGUMENT, "there is no command '%s%s%s'; `crosshead help` lists them",
                 words[0], count == 2 ? " " : "", count == 2 ? words[1] : "");
}

const ch_command ch_cmd_help = {
    .name = "help",
    .positional = "[COMMAND] [SUBCOMMAND]",
    .summary = "Explain the program or one of its commands.",
    .examples = "crosshead help\ncrosshead help train",
    .arguments_size = sizeof(arguments),
    .run = run,
};
