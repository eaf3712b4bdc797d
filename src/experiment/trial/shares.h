/* Runs by their predicted length, and their division into shares that are about equally long: it follows from the settings
 * alone, so that machines that do not know of each other divide them in the same way. */
#ifndef CH_EXPERIMENT_TRIAL_SHARES_H
#define CH_EXPERIMENT_TRIAL_SHARES_H

#include "experiment/trial/setup.h"

/* order [count]: the numbers of the runs, the longest first; of equal ones those that come first. */
void ch_longest_first(const double *costs, int count, int *order);
/* share_of [count], from 0: the longest first, each to the share that has the least so far. */
ch_status ch_divide(const double *costs, int count, int shares, int *share_of, ch_error *error);

/* *flops: about the FLOPs of training a model of the plan with one seed. */
ch_status ch_predict_flops(const ch_compare_setup *setup, int model, double *flops, ch_error *error);
/* Several groups of ranks begin with the longest of pieces [count]; listed [count] says what each belongs to, and goes with it. */
ch_status ch_order_pieces(const ch_compare_setup *setup, ch_assignment *pieces, int *listed, int count,
                          ch_error *error);
/* share_of [plan.count * seeds], seed by seed: of settings.parts shares. While rates are tried all runs of a model belong to
   one share. */
ch_status ch_compare_divide(const ch_compare_setup *setup, int *share_of, ch_error *error);

#endif
