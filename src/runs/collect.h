/* A run as its directory tells it: the log says how it began, went on and ended, result.json what came of it. */
#ifndef CH_RUNS_COLLECT_H
#define CH_RUNS_COLLECT_H

#include "runs/store.h"

/* What only the caller knows; members may be NULL. */
typedef struct ch_run_labels {
  const char *kind;    /* the command; NULL: "train" */
  const char *name;    /* NULL: the directory's last part */
  const char *dataset; /* what it was trained on */
  const char *command, *commit;
  const char *status; /* in place of what the log says */
} ch_run_labels;

/* Reads DIRECTORY/log.jsonl, and DIRECTORY/result.json where there is one. Texts and curves go into the arena; curves of
   more than 1000 steps are means of equal stretches. Errors: no log, or one that does not begin as logs do. */
ch_status ch_run_collect(const char *directory, const ch_run_labels *labels, ch_arena *arena,
                         ch_kept_run *run, ch_error *error);

#endif
