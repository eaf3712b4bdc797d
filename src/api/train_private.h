/* Shared by the public functions that train. */
#ifndef CH_API_TRAIN_PRIVATE_H
#define CH_API_TRAIN_PRIVATE_H

#include <crosshead/train.h>

#include "train/data.h"
#include "train/image_data.h"
#include "train/trainer.h"

/* One call of ch_train. */
typedef struct ch_train_job {
  const ch_train_settings *settings;
  const char *out;
  const char *text; /* the directory with the prepared text or the record of the images */
  char *checkpoint; /* its path */
  bool resumed;     /* it is there to go on from */
  ch_config config;
  ch_train_options options;
  ch_data data;         /* of a model of text */
  ch_image_data images; /* or of images */
  ch_trainer *trainer;
  bool is_control; /* the run of the model that is trained in the same way as another's */
  bool began;      /* the first step was reached, and a log is there */
  int64_t began_step;
  bool stopped;       /* a callback said so */
  ch_profile profile; /* of the trace */
  double trace_began; /* ch_clock, when all ranks began the step that is traced */
  ch_status traced;   /* whether it could be written, and why not */
  ch_error trace_error;
} ch_train_job;

/* Calls settings->event, if there is one. */
static inline void ch_training_tell(ch_train_job *t, ch_train_event event) {
  const ch_train_settings *s = t->settings;
  if (s->event && !s->event(&event, s->user)) t->stopped = true;
}

/* Checks the settings and decides config and options: new, or those of the checkpoint (train_decide.c). */
ch_status ch_training_decide(ch_train_job *t, ch_error *error);
/* Opens the text or the images, and sets the options that depend on their amount (train_data.c). */
ch_status ch_training_open_data(ch_train_job *t, ch_error *error);
const ch_batch_source *ch_training_source(const ch_train_job *t);
/* Returns the text tokens, or images, of one pass over the data (train_data.c). */
int64_t ch_training_epoch(const ch_train_job *t);
/* Check that all ranks have the same program, files and options, and later the same data (train_ranks.c). */
ch_status ch_training_compare_start(const ch_train_job *t, ch_error *error);
ch_status ch_training_compare_data(const ch_train_job *t, ch_error *error);
/* The model that is trained in the same way (train_control.c). */
typedef struct ch_training_control {
  char *model;     /* its directory; NULL: there is none */
  char *directory; /* of its run, below that of the other one */
  ch_train_settings settings;
  ch_train_job run; /* without data of its own */
} ch_training_control;

/* Finds the control by the settings or the record of a resumed run, and checks that it can be trained like
 * the run's own model. Config and options of the run are decided before. Release with
 * ch_training_control_free, also after a failure. */
ch_status ch_training_find_control(const ch_train_job *t, ch_training_control *control, ch_error *error);
/* Writes down in the run's directory which it is, so that resuming finds it. */
ch_status ch_training_record_control(const ch_train_job *t, const ch_training_control *control,
                                     ch_error *error);
/* Makes control->run the run to drive after the other one has ended: its text, options and callbacks. */
ch_status ch_training_open_control(const ch_train_job *t, ch_training_control *control, ch_error *error);
void ch_training_control_free(ch_training_control *control);
/* Traces the run's second step, where the settings ask for it: called before the first step and after each, of which
   `steps_done` is the number (train_trace.c). */
void ch_training_trace(ch_train_job *t, int64_t steps_done);

#endif
