/* The command line that is being run; the program runs one command in its life. */
#ifndef CH_CLI_INVOCATION_H
#define CH_CLI_INVOCATION_H

#include "cli/destination.h"
#include "cli/parse.h"

extern struct ch_invocation {
  const ch_command *command; /* NULL before and after it runs */
  ch_command_line parsed;
  ch_destinations outputs;
} ch_invocation;

/* Writes an error's message with the settings that it names spelt as options of `command`. */
void ch_command_message(const ch_command *command, const ch_error *error, char out[CH_MESSAGE_SIZE]);

#endif
