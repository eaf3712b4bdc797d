/* A command line as a user would type it. */
#ifndef CH_CLI_COMMAND_TEXT_H
#define CH_CLI_COMMAND_TEXT_H

#include "cli/command.h"

/* Appends "crosshead NAME", the positional arguments and the given options. */
void ch_put_command_line(const char *name, const ch_option *options, const void *arguments, ch_text *text);

#endif
