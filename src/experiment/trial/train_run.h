/* One run of a comparison: a model trained with one seed in a directory of its own, and the runs that find its learning
 * rate. */
#ifndef CH_EXPERIMENT_TRIAL_TRAIN_RUN_H
#define CH_EXPERIMENT_TRIAL_TRAIN_RUN_H

#include "experiment/trial/setup.h"

/* Reads the result in a run's directory. *found becomes false if the run was not finished with as many tokens
 * as it should have. */
ch_status ch_compare_read_run(ch_compare_setup *setup, int model, uint64_t seed, ch_model_result *run,
                              bool *found, ch_error *error);
/* Trains a model of the plan at its rate and writes its result; every rank of a group calls it. run, runs: its place
 * among all, for the caller's progress. *began: a step was trained, or all were before. */
ch_status ch_compare_train_run(ch_compare_setup *setup, int model, uint64_t seed, int run, int runs,
                               bool *began, ch_error *error);

/* Returns the device that this process trains on with PyTorch; the caller's. NULL: PyTorch chooses it. */
char *ch_compare_device_of(const ch_compare_setup *setup);

/* Finds the rate of a model, which all its runs then have, by runs with the first seed. Those that are finished are
 * read. */
ch_status ch_compare_tune_model(ch_compare_setup *setup, int model, bool *began, ch_error *error);
/* Works like ch_compare_tune_model, from finished runs alone. *known becomes false if one is missing. */
ch_status ch_compare_read_tune(ch_compare_setup *setup, int model, bool *known, ch_error *error);

#endif
