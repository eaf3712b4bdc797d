/* Checks the outputs of a command. An existing output is an error. --force replaces it if everything in it has a
 * name or format that Crosshead writes. */
#ifndef CH_CLI_DESTINATION_H
#define CH_CLI_DESTINATION_H

#include "cli/parse.h"

enum { CH_MOST_DESTINATIONS = 4 };

/* An output of the command, and the option that names it. */
typedef struct ch_destination {
  const ch_option *option;
  const char *path; /* path as the user wrote it */
  char *place;      /* path without symbolic links */
  char *work;       /* path next to `place` that the command writes; NULL: it writes `place` */
  char *old;        /* path to which the replaced output was renamed; NULL: nothing was renamed */
  bool began_empty; /* true if `place` is a directory that was empty */
} ch_destination;

typedef struct ch_destinations {
  ch_destination list[CH_MOST_DESTINATIONS];
  int count;
} ch_destinations;

/* Checks every output of the command line before the command runs. An output that may not be written is
   CH_ERROR_ARGUMENT. */
ch_status ch_destinations_open(const ch_command *command, const ch_command_line *parsed, ch_destinations *all,
                               ch_error *error);
/* Ends a command. If `status` is CH_OK, renames the outputs to their final paths and deletes the replaced ones.
   Otherwise restores each replaced output, unless the new one is a job that can already be continued. Returns `status`,
   or the error of a rename or deletion. */
ch_status ch_destinations_close(ch_destinations *all, ch_status status, ch_error *error);
/* Returns the path that the command writes for the option; NULL if the option names no output. */
const char *ch_destinations_path(const ch_destinations *all, const char *option);

/* Fails unless the directory is empty or missing, holds only prepared text, or holds a job to continue: one with a
   file `settings` (NULL: jobs cannot continue). */
ch_status ch_check_job(const char *option, const char *path, const char *settings, ch_error *error);

#endif
