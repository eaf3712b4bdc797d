/* A training run: a trainer driven to its last step, with a log, evaluations, checkpoints and a final
   model. */
#ifndef CH_TRAIN_RUN_H
#define CH_TRAIN_RUN_H

#include <crosshead/train.h>

#include "base/file_names.h"
#include "train/trainer.h"

/* Callbacks of a run; every member may be NULL. They are called by the thread that called ch_train_run. */
typedef struct ch_train_events {
  void *context;
  /* Called after every step. */
  void (*step)(void *context, const ch_step_report *report);
  /* Called from time to time within a step or an evaluation of more than a second, with the finished share. */
  ch_share_sink share;
  /* Called before every evaluation; until `evaluated`, shares are those of the evaluation. */
  void (*evaluating)(void *context);
  /* Called after every evaluation. */
  void (*evaluated)(void *context, const ch_validation_point *point);
  /* Called after every checkpoint. */
  void (*saved)(void *context, int64_t step, const char *path);
  /* Returns true when the run should stop; called often. The run then saves a checkpoint and returns
     CH_ERROR_INTERRUPTED. */
  ch_stop_test interrupted;
  /* Called once, when everything is ready: the next step is `step` + 1. Strings in `on` are valid until it
     returns. */
  void (*started)(void *context, int64_t step, const ch_trained_on *on);
  const struct ch_worker *worker; /* worker that trains the run (train/worker.h); NULL: the trainer does */
} ch_train_events;

/* Converts the report of one step, in a run of `steps` steps, to the public type. */
void ch_train_step_of(const ch_step_report *report, int64_t steps, ch_train_step *step);

/* Drives `trainer` to its last step. DIRECTORY (created when missing) gets log.jsonl, checkpoint.safetensors
   and, at the end, the model (config.json and model.safetensors; the caller adds the tokenizer). With
   `resume`, the run continues from a checkpoint found there and the log is cut back to it. Without a
   checkpoint it starts at the beginning; a finished run is unchanged, and the call returns CH_OK at once.
   Without `resume`, a checkpoint found there is an error. Errors: CH_ERROR_INTERRUPTED (a checkpoint was
   saved; the message names the step), CH_ERROR_NUMERIC and CH_ERROR_IO (the last good checkpoint remains).
   With a trainer over ranks every rank calls it; rank 0 writes the files. Curves and losses:
   ch_trainer_progress. */
ch_status ch_train_run(ch_trainer *trainer, const char *directory, bool resume, const ch_train_events *events,
                       ch_error *error);

#endif
