/* Fills in a comparison's record of a model: its shape and its training. */
#ifndef CH_EXPERIMENT_TRIAL_MODEL_RECORD_H
#define CH_EXPERIMENT_TRIAL_MODEL_RECORD_H

#include "experiment/trial/setup.h"

/* Durations of the steps that this process trained. */
typedef struct ch_step_times {
  double *seconds;     /* [room] of which the first `taken` are set */
  int64_t taken, room; /* number of durations, and capacity of `seconds` */
  bool disturbed;      /* true if other programs used the machine */
} ch_step_times;

/* Fills in name, shape, counts, and the seed in setup->training. Strings go into the comparison's arena. */
ch_status ch_model_result_fill_shape(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     ch_model_result *model, ch_error *error);
/* Fills in both curves up to the last step of `record`, and the number of loss spikes. */
ch_status ch_model_result_fill_curves(const ch_compare_setup *setup, const ch_progress_record *record,
                                      ch_model_result *model, ch_error *error);
/* Fills in losses, accuracies, curves and the speed of training from `times`, whose values it changes. diverged: the
   run ended because a loss was not finite, and its validation loss becomes infinite. */
ch_status ch_model_result_fill_training(const ch_compare_setup *setup, const ch_trainer *trainer,
                                        ch_step_times *times, bool diverged, ch_model_result *model,
                                        ch_error *error);

#endif
