/* A training run: a trainer driven to its last step, with a log, evaluations, checkpoints and a final model. */
#ifndef CH_TRAIN_RUN_H
#define CH_TRAIN_RUN_H

#include "train/trainer.h"

/* What a run tells its caller while it goes; every member may be NULL. Called by the thread that runs. */
typedef struct ch_run_events {
  void *context;
  /* After every step. */
  void (*step)(void *context, const ch_step_report *report);
  /* After every evaluation. */
  void (*evaluated)(void *context, const ch_validation_point *point);
  /* After every checkpoint. */
  void (*saved)(void *context, int64_t step, const char *path);
  /* True once the run should stop; asked often. The run then saves a checkpoint and returns CH_ERROR_INTERRUPTED. */
  ch_stop_test interrupted;
  /* Once, when everything is ready: the first step to come is `step` + 1. */
  void (*started)(void *context, int64_t step);
} ch_run_events;

/* The files of a run's directory. */
#define CH_RUN_CHECKPOINT "checkpoint.safetensors"
#define CH_RUN_LOG "log.jsonl"

/* Drives `trainer` to its last step. DIRECTORY (created when missing) gets log.jsonl, checkpoint.safetensors and, at the
   end, the model (config.json, model.safetensors; the tokenizer is the caller's). With `resume` a checkpoint found there
   is continued from (none is no error: the run starts at its beginning) and the log is cut back to it; a finished run is
   left as it is and returns CH_OK at once. Without `resume` a checkpoint that lies there is an error.
   Errors: CH_ERROR_INTERRUPTED (a checkpoint was saved; the message says at which step), CH_ERROR_NUMERIC (the last good
   checkpoint stays), CH_ERROR_IO (the last good checkpoint stays). Curves and losses: ch_trainer_progress. */
ch_status ch_train_run(ch_trainer *trainer, const char *directory, bool resume, const ch_run_events *events,
                       ch_error *error);

#endif
