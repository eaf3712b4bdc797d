/* A command with its arguments, as it would be typed. */
#ifndef CH_CLI_COMMAND_TEXT_H
#define CH_CLI_COMMAND_TEXT_H

#include "cli/command.h"

/* Appends "crosshead NAME", positional arguments and the options that were given. */
void ch_put_command_line(const char *name, const ch_option *options, const void *arguments, ch_text *text);

#endif
