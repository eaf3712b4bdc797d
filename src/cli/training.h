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
  ch_train_settings settings; /* members whose options were given; the others are not set */
} ch_training_arguments;

extern const ch_option ch_training_option_table[];
/* Returns the settings of the command line. Errors: a --validation that is a number, but no share. */
ch_status ch_training_read(const ch_training_arguments *arguments, ch_train_settings *settings,
                           ch_error *error);

/* Progress on standard error. */
typedef struct ch_training_view {
  const char *out;
  bool resume;
  ch_progress_line line;
  bool began;                         /* the first step was reached, so a log exists */
  ch_train_start start;               /* of the current run, which may be the control's */
  int64_t step;                       /* the last that was done */
  bool evaluating;                    /* shares are those of an evaluation */
  double smooth_loss, smooth_seconds; /* running means over about the last twenty steps */
  bool stopping;                      /* a signal arrived, and its effect was printed */
} ch_training_view;

/* Show an event, and return true if training should stop: callbacks of ch_train_settings whose `user` is a
 * ch_training_view. */
bool ch_training_show(const ch_train_event *event, void *view);
bool ch_training_stops(void *view);
/* Prints the report of ch_train as a line. */
void ch_training_put_result(const ch_training_view *view, const json_t *report, ch_text *text);

#endif
