/* The preparation of a comparison: the plan, the text or images, and the training options of all models. */
#ifndef CH_EXPERIMENT_TRIAL_SETUP_H
#define CH_EXPERIMENT_TRIAL_SETUP_H

#include "experiment/trial/scheduler.h"
#include "experiment/lineup/comparison_plan.h"
#include "experiment/findings/comparison_results.h"
#include "experiment/trial/settings.h"
#include "train/undo_preparation.h"
#include "train/data.h"
#include "train/image_data.h"
#include "train/run.h"

typedef struct ch_compare_setup {
  ch_compare_settings settings; /* complete */
  double lr_given;              /* a rate for all models, 0: their usual ones */
  ch_experiment experiment;
  ch_scheduler scheduler;    /* who trains */
  ch_comparison *comparison; /* everything except the models' results is filled in */
  ch_compare_plan plan;
  ch_data data;              /* of a comparison on text, */
  ch_image_data images;      /* or on images */
  ch_train_options training; /* options of every model, except the steps with CH_MATCH_TIME */
  /* Tokens (or epochs) that the comparison was started with, where it is given more now; else 0. */
  int64_t grown_from;
  ch_preparation attempt;
  bool dry;             /* what would be done is planned, and nothing is written */
  bool continued;       /* the directory had these settings when the setup was planned */
  bool kept;            /* the directory has these settings */
  bool began;           /* a run is finished, or has trained a step */
  _Atomic bool stopped; /* an event's callback returned false */
} ch_compare_setup;

/* Checks the settings and those of the directory, prepares the text or images, and plans the models and their
 * training; every rank of the settings calls it. dry: nothing is written and no text is prepared. If the directory
 * holds no comparison yet, the text's tokens are then random and their number is estimated
 * (experiment/trial/text_estimate.h). `comparison` must outlive the setup. With CH_MATCH_TIME the steps of the models
 * follow (experiment/trial/match_time.h). Release with ch_compare_setup_close, also on failure. */
ch_status ch_compare_setup_plan(const ch_compare_settings *settings, ch_experiment experiment, bool dry,
                                ch_comparison *comparison, ch_compare_setup *setup, ch_error *error);
/* Ends the preparation of a planned setup: describes the comparison, checks the runs that the directory holds, and
 * writes the settings of a new one. Those of a comparison that is continued are not written yet:
 * ch_compare_setup_keep. */
ch_status ch_compare_setup_settle(ch_compare_setup *setup, ch_error *error);
/* Begins a preparation for experiments that plan models of several shapes themselves: the settings, the
 * mechanisms' names, and the text, as in a comparison that is not continued. No settings are saved. The
 * caller then fills setup->training and calls ch_compare_setup_describe. Release with ch_compare_setup_close,
 * also on failure. */
ch_status ch_compare_setup_text(const ch_compare_settings *settings, ch_comparison *comparison,
                                ch_compare_setup *setup, ch_error *error);
/* Fills in everything in the comparison except the models' results. */
ch_status ch_compare_setup_describe(ch_compare_setup *setup, ch_error *error);
/* Writes the settings, unless the directory has them. */
ch_status ch_compare_setup_keep(ch_compare_setup *setup, ch_error *error);
/* Closes a setup; `status` is the outcome of the experiment. If it failed before any run began, the files
 * that it created are removed. */
void ch_compare_setup_close(ch_compare_setup *setup, ch_status status);

/* Returns the training options of a model's runs: the setup's, with the model's own number of steps. */
ch_status ch_compare_training_of(const ch_compare_setup *setup, const ch_planned_model *planned,
                                 ch_train_options *training, ch_error *error);
/* Returns a run's directory below --out, in the comparison's arena: that of the model, or "seed-2" inside it
 * for further seeds. NULL when out of memory. */
const char *ch_compare_run_directory(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     uint64_t seed);

/* Sets the seed of the next runs: for initial weights, the order of the text, and the augmentation of images. */
void ch_compare_take_seed(ch_compare_setup *setup, uint64_t seed);

/* Returns the source of batches: the text or the images. */
const ch_batch_source *ch_compare_source(const ch_compare_setup *setup);
bool ch_compare_on_images(const ch_compare_setup *setup);

/* Calls settings.event, if there is one. */
void ch_compare_tell(ch_compare_setup *setup, ch_compare_event event);
/* Returns true if the caller wants to stop: a ch_stop_test whose context is the setup. */
bool ch_compare_stopped(void *setup);

#endif
