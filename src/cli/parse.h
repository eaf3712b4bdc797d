/* Parses a command line by a command's option table. */
#ifndef CH_CLI_PARSE_H
#define CH_CLI_PARSE_H

#include "cli/command.h"

enum { CH_POSITIONAL_MAX = 4096 };

/* A parsed command line. `arguments` is the command's struct; release with ch_parsed_free. */
typedef struct ch_command_line {
  void *arguments;
  bool *given; /* [options in the table] true if the option was given */
  bool help;   /* true if --help was given: nothing else is checked */
} ch_command_line;

/* Parses the words after the command's name. Every failure is CH_ERROR_ARGUMENT or CH_ERROR_MEMORY. */
ch_status ch_parse_command_line(const ch_command *command, int argc, char **argv, ch_command_line *parsed,
                                ch_error *error);
void ch_parsed_free(ch_command_line *parsed);

/* Sets the minimum and maximum number of positional arguments of the command. */
void ch_positional_count(const ch_command *command, int *least, int *most);
#endif
