/* Trains single runs of a comparison, each a model with one seed and its own directory, and the runs that find a
 * model's learning rate. */
#ifndef CH_EXPERIMENT_TRIAL_TRAIN_RUN_H
#define CH_EXPERIMENT_TRIAL_TRAIN_RUN_H

#include "experiment/trial/setup.h"

/* Reads the result in a run's directory. *found becomes true if the run was trained on all its tokens or diverged. */
ch_status ch_compare_read_run(ch_compare_setup *setup, int model, uint64_t seed, ch_model_result *run,
                              bool *found, ch_error *error);
/* Trains a model of the plan at its rate and writes its result. All ranks of a group call it. `run` is the index of the
 * run among `runs`, for events. *began becomes true if a step was trained, now or earlier. */
ch_status ch_compare_train_run(ch_compare_setup *setup, int model, uint64_t seed, int run, int runs,
                               bool *began, ch_error *error);

/* Returns the devices on which this process trains with PyTorch, separated by commas; the caller frees them. NULL:
 * PyTorch chooses, or out of memory. */
char *ch_compare_device_of(const ch_compare_setup *setup);

/* Finds the rate of a model with runs of the first seed, and sets it in the plan. Finished runs are read. */
ch_status ch_compare_tune_model(ch_compare_setup *setup, int model, bool *began, ch_error *error);
/* Works like ch_compare_tune_model with finished runs only. *known becomes false if one is missing. */
ch_status ch_compare_read_tune(ch_compare_setup *setup, int model, bool *known, ch_error *error);

#endif
