/* Functions for the running command: its given options, its output paths, the messages of its errors. */
#include "cli/invocation.h"

#include <stdio.h>
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

static bool has_name(const ch_option *option, const char *setting) {
  size_t i = 0;
  for (; option->name[i] && setting[i]; i++)
    if (option->name[i] != setting[i] && (option->name[i] != '-' || setting[i] != '_')) return false;
  return option->name[i] == setting[i];
}

/* Writes the option of a setting. An option with that `setting` takes precedence over one with that name. */
static void spell_as_option(const char *setting, char *out, size_t size, void *user) {
  const ch_command *command = user;
  const ch_option *found = NULL;
  for (const ch_option *o = command ? command->options : NULL; o && o->name; o++) {
    bool sets = o->setting && strcmp(o->setting, setting) == 0;
    if (sets || (!found && has_name(o, setting))) found = o;
    if (sets) break;
  }
  snprintf(out, size, "%s%s", found ? "--" : "", found ? found->name : setting);
}

void ch_command_message(const ch_command *command, const ch_error *error, char out[CH_MESSAGE_SIZE]) {
  ch_error_spell(error, spell_as_option, (void *)(uintptr_t)command, out, CH_MESSAGE_SIZE);
}

const char *ch_message_of(const ch_error *error, char out[CH_MESSAGE_SIZE]) {
  ch_command_message(ch_invocation.command, error, out);
  return out;
}
