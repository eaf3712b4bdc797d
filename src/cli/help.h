/* Help texts, the man page and completion scripts from the command tables, and the search for commands by name. */
#ifndef CH_CLI_HELP_H
#define CH_CLI_HELP_H

#include <stdio.h>

#include "base/text.h"
#include "cli/command.h"

void ch_print_program_help(FILE *stream);
void ch_print_command_help(const ch_command *command, FILE *stream);
/* Prints help for the commands whose first word is `word` ("tokenizer"). */
void ch_print_family_help(const char *word, FILE *stream);

/* Finds the command named by the first one or two words. Returns the number of these words, 0 if there is none. */
int ch_find_command(int argc, char **argv, const ch_command **found);
/* Returns true if commands of two words begin with `word`. */
bool ch_is_family(const char *word);

/* Appends the notes after an option's sentence in the help: choices, "required" or the default, and the alias. */
void ch_option_notes(const ch_option *option, ch_text *notes);

/* ch_manual appends the man page (cli/manual.c). The other functions append completion scripts (cli/completion.c). */
void ch_manual(ch_text *page);
void ch_completion_bash(ch_text *script);
void ch_completion_zsh(ch_text *script);
void ch_completion_fish(ch_text *script);

#endif
