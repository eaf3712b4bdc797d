/* Answers the running command's questions about its command line. */
#include "cli/invocation.h"

#include <string.h>

struct ch_invocation ch_invocation;

bool ch_option_given(const void *arguments, const char *name) {
  const ch_command *command = ch_invocation.command;
  if (!command || arguments != ch_invocation.parsed.arguments) return false;
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strcmp(command->options[i].name, name) == 0) return ch_invocation.parsed.given[i];
  return false;
}

const char *ch_output_path(const void *arguments, const char *option) {
  bool own = arguments == ch_invocation.parsed.arguments;
  return own ? ch_destinations_path(&ch_invocation.outputs, option) : NULL;
}
