/* Where a command writes. An output that exists is refused. --force replaces it if all of it is what Crosshead writes. */
#ifndef CH_CLI_DESTINATION_H
#define CH_CLI_DESTINATION_H

#include "cli/parse.h"

enum { CH_MOST_DESTINATIONS = 4 };

/* One option that names an output. */
typedef struct ch_destination {
  const ch_option *option;
  const char *path; /* as the user wrote it */
  char *place;      /* without symbolic links */
  char *work;       /* what the command writes, beside the place. NULL: the place itself */
  char *old;        /* where the replaced output is while the command runs. NULL: there was none */
  bool began_empty; /* the place is a directory that was empty */
} ch_destination;

typedef struct ch_destinations {
  ch_destination list[CH_MOST_DESTINATIONS];
  int count;
} ch_destinations;

/* Looks at every output that the command line names, before the command runs. Refusals are CH_ERROR_ARGUMENT. */
ch_status ch_destinations_open(const ch_command *command, const ch_parsed *parsed, ch_destinations *all,
                               ch_error *error);
/* After the command: with `status` CH_OK the outputs take their places and what they replace is deleted; else what stood
   there before stands there again. Returns `status`, or what went wrong here. */
ch_status ch_destinations_close(ch_destinations *all, ch_status status, ch_error *error);
/* The path that the command writes for the option; NULL if the option names no output. */
const char *ch_destinations_path(const ch_destinations *all, const char *option);

/* Refuses the directory of a job that can be continued, where something stands that is not such a job: it has no file of
   the name `settings` (NULL: it cannot be continued), and is more than a text that was prepared for one. */
ch_status ch_check_job(const char *option, const char *path, const char *settings, ch_error *error);

#endif
