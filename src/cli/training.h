/* One run of crosshead train: its arguments, what it holds, and its parts. */
#ifndef CH_CLI_TRAINING_H
#define CH_CLI_TRAINING_H

#include "base/progress.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "train/data.h"
#include "train/image_data.h"
#include "train/run.h"

typedef struct ch_training_arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *images, *out, *runs, *init_from, *tokenizer, *schedule, *dtype, *separator, *augment,
      *trace;
  bool resume, recover, json;
  int64_t tokens, epochs, seed;
  double validation;
  ch_train_options training; /* members whose options were given; the others are taken elsewhere */
} ch_training_arguments;

typedef struct ch_training {
  const ch_training_arguments *args;
  ch_config config;
  ch_train_options options;
  bool resumed;         /* a checkpoint is there to go on from */
  ch_data data;         /* of a model of text */
  ch_image_data images; /* or of images */
  ch_trainer *trainer;
  ch_progress_line line;
  bool began; /* the first step was reached, and a log is there */
  int64_t began_step;
  ch_profile profile; /* of --trace */
  ch_status traced;   /* whether the trace could be written, and why not */
  ch_error trace_error;
  double smooth_loss, smooth_seconds; /* running means over about the last twenty steps */
} ch_training;

/* The option table of the command, and what parts documents, in the order of ch_separator. */
extern const ch_option ch_training_option_table[];
extern const char *const ch_separator_names[];

/* Config and options, from the command line or from the checkpoint that lies in --out. */
ch_status ch_training_decide(ch_training *run, ch_error *error);
/* The text or the images, and the options that depend on how much there is of them. */
ch_status ch_training_open_data(ch_training *run, ch_error *error);
const ch_source *ch_training_source(const ch_training *run);

/* Progress on standard error; `context` is the run. */
bool ch_training_show_preparation(void *context, const char *stage, double done, double total);
void ch_training_show_start(void *context, int64_t step);
void ch_training_show_step(void *context, const ch_step_report *report);
void ch_training_show_evaluation(void *context, const ch_validation_point *point);
/* The second step's operations are traced, where --trace asks for it: called before the first step and after each. */
void ch_training_trace(ch_training *run, int64_t steps_done);
/* The result on standard output, as a line or as JSON. */
ch_status ch_training_show_result(const ch_training *run, ch_error *error);

#endif
