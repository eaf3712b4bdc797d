/* Declarations that the public functions of training share. */
#ifndef CH_API_TRAIN_PRIVATE_H
#define CH_API_TRAIN_PRIVATE_H

#include <crosshead/train.h>

#include "train/data.h"
#include "train/image_data.h"
#include "train/trainer.h"

/* The state of one call of ch_train. */
typedef struct ch_train_job {
  const ch_train_settings *settings;
  const char *out;
  const char *text; /* directory with the prepared text or the record of the images */
  char *checkpoint; /* path of the checkpoint */
  bool resumed;     /* true if the run continues from the checkpoint */
  ch_config config;
  ch_train_options options;
  ch_data data;         /* text, for a model of text */
  ch_image_data images; /* images, for a model of images */
  ch_trainer *trainer;
  bool is_control;      /* true for the run of the control */
  bool began;           /* true once training has started, so that a log exists */
  int64_t began_step;   /* number of finished steps when this call started training */
  bool stopped;         /* true once a callback has stopped the run */
  ch_profile profile;   /* profile of the traced step */
  double trace_began;   /* ch_clock at which all ranks began the traced step */
  ch_status traced;     /* status of writing the trace; CH_OK before it is written */
  ch_error trace_error; /* the error, if `traced` is not CH_OK */
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
/* Returns the source of batches: the text or the images (train_data.c). */
const ch_batch_source *ch_training_source(const ch_train_job *t);
/* Returns the number of positions in sequences, or of images, in one pass over the data (train_data.c). */
int64_t ch_training_epoch(const ch_train_job *t);
/* Checks that all ranks have the same program, files and options (train_ranks.c). */
ch_status ch_training_compare_start(const ch_train_job *t, ch_error *error);
/* Checks that all ranks have the same data. */
ch_status ch_training_compare_data(const ch_train_job *t, ch_error *error);
/* The control of a run: another model that is trained in the same way (train_control.c). */
typedef struct ch_training_control {
  char *model;     /* directory of the control's model; NULL: no control */
  char *directory; /* directory of the control's run, inside the main run's */
  ch_train_settings settings;
  ch_train_job run; /* run of the control, with the main run's data */
} ch_training_control;

/* Finds the control in the settings or the record of a resumed run, and checks that it can be trained like the run's
 * own model. Call it after ch_training_decide. Release with ch_training_control_free, also after a failure. */
ch_status ch_training_find_control(const ch_train_job *t, ch_training_control *control, ch_error *error);
/* Records the control in the run's directory, so that a resumed run finds it. */
ch_status ch_training_record_control(const ch_train_job *t, const ch_training_control *control,
                                     ch_error *error);
/* Prepares control->run after the main run has ended: its data, options and callbacks. */
ch_status ch_training_open_control(const ch_train_job *t, ch_training_control *control, ch_error *error);
void ch_training_control_free(ch_training_control *control);
/* Traces the second step of this call of ch_train, or its only one, if requested. Call it before the first step and
   after each step; `steps_done` is the number of steps that this call has done (train_trace.c). */
void ch_training_trace(ch_train_job *t, int64_t steps_done);

#endif
