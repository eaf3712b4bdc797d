/* The log of a run: JSON lines, one object per event. docs/train.md lists the events. */
#ifndef CH_TRAIN_LOG_H
#define CH_TRAIN_LOG_H

#include <stdio.h>

#include "train/trainer.h"

typedef struct ch_log {
  char *path;
  FILE *file;
} ch_log;

/* Opens (or creates) a log for appending, and locks it. The lock also marks the run's directory as in use: a
   second run in it gets an error. */
ch_status ch_log_open(ch_log *log, const char *path, ch_error *error);
void ch_log_close(ch_log *log);

/* Cuts the log back to a checkpoint at `step`: removes the first line that is of a later step, an evaluation of this
   step (unless `evaluated`) or incomplete, and all lines after it. *done becomes true if the log says that the run was
   done at this step. */
ch_status ch_log_cut(ch_log *log, int64_t step, bool evaluated, bool *done, ch_error *error);
/* Removes all lines. */
ch_status ch_log_clear(ch_log *log, ch_error *error);

/* Writes {"event": "start", …}, or "resume" if steps were taken before, with step, version, machine, config, options
   and source. */
ch_status ch_log_start(ch_log *log, const ch_trainer *trainer, ch_error *error);
/* Writes a step. unit: "tokens" or "images"; rate: units per second. */
ch_status ch_log_step(ch_log *log, const ch_step_report *report, const char *unit, double rate,
                      ch_error *error);
/* Writes an evaluation. done: units that were trained on so far. */
ch_status ch_log_evaluation(ch_log *log, const ch_validation_point *point, const char *unit, int64_t done,
                            ch_error *error);
/* Writes {"event": NAME, "step": …, "message": …}; message may be NULL. */
ch_status ch_log_event(ch_log *log, const char *name, int64_t step, const char *message, ch_error *error);

#endif
