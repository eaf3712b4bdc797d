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
  ch_compare_settings settings; /* complete settings */
  double lr_given;              /* the user's rate for all models; 0: each model has its usual one */
  ch_experiment experiment;
  ch_scheduler scheduler;    /* assigns runs to this process or to groups of ranks */
  ch_comparison *comparison; /* the caller's; ch_compare_setup_describe fills in all but the results */
  ch_compare_plan plan;
  ch_data data;              /* the text, unless the comparison is on images */
  ch_image_data images;      /* the images, if the comparison is on images */
  ch_train_options training; /* options of every model; a model's own `steps` replace the number of steps */
  /* Tokens (or epochs) that the comparison was started with, if it was given more now or earlier; else 0 */
  int64_t grown_from;
  ch_preparation attempt; /* rank 0: files that existed before the preparation */
  bool dry;               /* true if the experiment is only planned, and nothing is written */
  bool continued;         /* true if the directory had a settings file when the setup was planned */
  bool kept;              /* true if this process has written the settings */
  bool began;             /* true if a run is finished or its training has started */
  _Atomic bool stopped;   /* true if an event's callback returned false */
} ch_compare_setup;

/* Checks the settings, also against the settings that the directory stores, prepares the text or images, and plans the
 * models and their training. All ranks in settings->workers.ranks call it. dry: nothing is written and no text is
 * prepared. If the directory holds no comparison yet, the text's tokens are then arbitrary and their number is
 * estimated (experiment/trial/text_estimate.h). `comparison` must outlive the setup. With CH_MATCH_TIME the steps of
 * the models are not set yet (experiment/trial/match_time.h). Release with ch_compare_setup_close, also on failure. */
ch_status ch_compare_setup_plan(const ch_compare_settings *settings, ch_experiment experiment, bool dry,
                                ch_comparison *comparison, ch_compare_setup *setup, ch_error *error);
/* Ends the preparation of a planned setup: describes the comparison, checks the runs in the directory, and writes the
 * settings of a new comparison. ch_compare_setup_keep writes the settings of a continued comparison later. */
ch_status ch_compare_setup_settle(ch_compare_setup *setup, ch_error *error);
/* Begins a preparation for experiments that plan models of several shapes themselves: it checks the settings, reads the
 * mechanisms' names and prepares the text, as for a new comparison. No settings are saved. The caller then fills in
 * setup->training and calls ch_compare_setup_describe. Release with ch_compare_setup_close, also on failure. */
ch_status ch_compare_setup_text(const ch_compare_settings *settings, ch_comparison *comparison,
                                ch_compare_setup *setup, ch_error *error);
/* Fills in all of the comparison except the models' results. */
ch_status ch_compare_setup_describe(ch_compare_setup *setup, ch_error *error);
/* Writes the settings, unless this setup has already written them. */
ch_status ch_compare_setup_keep(ch_compare_setup *setup, ch_error *error);
/* Closes a setup. `status` is the outcome of the experiment: if it failed before any run began, the files that it
 * created are removed. */
void ch_compare_setup_close(ch_compare_setup *setup, ch_status status);

/* Computes the training options of a model's runs: those of the setup, with the model's own number of steps. */
ch_status ch_compare_training_of(const ch_compare_setup *setup, const ch_planned_model *planned,
                                 ch_train_options *training, ch_error *error);
/* Returns a run's directory below `out`: that of the model ("mha"), or "seed-2/mha" for a further seed. It belongs to
 * the comparison's arena; NULL when out of memory. */
const char *ch_compare_run_directory(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     uint64_t seed);

/* Sets the seed of the next runs, which decides initial weights, the order of the text or images, and augmentation. */
void ch_compare_take_seed(ch_compare_setup *setup, uint64_t seed);

/* Returns the source of batches: the text or the images. */
const ch_batch_source *ch_compare_source(const ch_compare_setup *setup);
bool ch_compare_on_images(const ch_compare_setup *setup);

/* Sends an event to settings.event, if there is one. */
void ch_compare_tell(ch_compare_setup *setup, ch_compare_event event);
/* Returns true if the caller wants to stop: a ch_stop_test whose context is the setup. */
bool ch_compare_stopped(void *setup);

#endif
