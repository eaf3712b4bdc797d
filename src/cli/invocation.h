/* The command line that is being run; the program runs one command in its life. */
#ifndef CH_CLI_INVOCATION_H
#define CH_CLI_INVOCATION_H

#include "cli/destination.h"
#include "cli/parse.h"

extern struct ch_invocation {
  const ch_command *command; /* NULL before and after it runs */
  ch_parsed parsed;
  ch_destinations outputs;
} ch_invocation;

#endif
