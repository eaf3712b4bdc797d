/* A comparison's record of a model: its shape, and how its training went. */
#ifndef CH_EXPERIMENT_TRIAL_MODEL_RECORD_H
#define CH_EXPERIMENT_TRIAL_MODEL_RECORD_H

#include "experiment/trial/setup.h"

/* Seconds of the steps that this process took. */
typedef struct ch_step_times {
  double *seconds;
  int64_t taken, room;
  bool disturbed; /* the machine was busy with other programs */
} ch_step_times;

/* Fills name, shape and counts, with the seed of the options. Strings go into the comparison's arena. */
ch_status ch_model_result_fill_shape(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     ch_model_result *model, ch_error *error);
/* Fills both curves up to the last step of `record`. */
ch_status ch_model_result_fill_curves(const ch_compare_setup *setup, const ch_progress_record *record,
                                      ch_model_result *model, ch_error *error);
/* Losses, accuracies, curves and the training rate from the times, which this changes. diverged: the run
   ended where its loss was no number, and the validation loss is infinite. */
ch_status ch_model_result_fill_training(const ch_compare_setup *setup, const ch_trainer *trainer,
                                        ch_step_times *times, bool diverged, ch_model_result *model,
                                        ch_error *error);

#endif
