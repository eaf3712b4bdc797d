/* The running command and its command line. The program runs one command. */
#ifndef CH_CLI_INVOCATION_H
#define CH_CLI_INVOCATION_H

#include "cli/destination.h"
#include "cli/parse.h"

extern struct ch_invocation {
  const ch_command *command; /* running command; NULL while none runs */
  ch_command_line parsed;
  ch_destinations outputs;
} ch_invocation;

/* Writes an error's message with the settings that it names spelt as options of `command`. */
void ch_command_message(const ch_command *command, const ch_error *error, char out[CH_MESSAGE_SIZE]);

#endif
