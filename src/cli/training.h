/* crosshead train: its arguments and its messages. */
#ifndef CH_CLI_TRAINING_H
#define CH_CLI_TRAINING_H

#include <crosshead/train.h>
#include <jansson.h>

#include "base/progress.h"
#include "cli/command.h"
#include "cli/parse.h"

typedef struct ch_training_arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *runs, *schedule, *dtype, *separator, *augment, *engine, *validation;
  bool json, force;
  int64_t seed, threads, ranks_per_run;
  ch_train_settings settings; /* values of options; ch_training_read copies those that were given */
} ch_training_arguments;

extern const ch_option ch_training_option_table[];
/* Converts the command line to settings. Fails if --validation is a number but not a valid share. */
ch_status ch_training_read(const ch_training_arguments *arguments, ch_train_settings *settings,
                           ch_error *error);

/* The state of the progress on standard error. */
typedef struct ch_training_view {
  const char *out;
  bool resume;
  ch_progress_line line;
  bool began;                         /* true once training has started, so that a log exists */
  ch_train_start start;               /* start event of the current run, which may be the control's */
  int64_t step;                       /* last completed step */
  bool evaluating;                    /* true if CH_TRAIN_EVENT_SHARE is the share of an evaluation */
  double smooth_loss, smooth_seconds; /* running means over about the last 20 steps */
  bool stopping;                      /* true once ch_training_stops has seen a signal */
} ch_training_view;

/* Shows an event; a callback of ch_train_settings whose `user` is a ch_training_view. Returns false if preparation
   should stop. */
bool ch_training_show(const ch_train_event *event, void *view);
/* Returns true after a signal, and announces a large checkpoint; a callback of ch_train_settings whose `user` is a
   ch_training_view. */
bool ch_training_stops(void *view);
/* Appends the report of ch_train as a line, and a table if there is a control. */
void ch_training_put_result(const ch_training_view *view, const json_t *report, ch_text *text);

#endif
