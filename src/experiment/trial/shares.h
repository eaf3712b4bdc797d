/* Runs by their predicted length, and their division into shares that are about equally long: it follows from the
 * settings alone, so that machines that do not know of each other divide them in the same way. */
#ifndef CH_EXPERIMENT_TRIAL_SHARES_H
#define CH_EXPERIMENT_TRIAL_SHARES_H

#include "experiment/trial/setup.h"

/* Sorts pieces [count] for several groups of ranks, the longest first, and listed [count] with them. */
ch_status ch_order_pieces(const ch_compare_setup *setup, ch_assignment *pieces, int *listed, int count,
                          ch_error *error);
/* Divides the runs into settings.parts shares: share_of [plan.count seeds], seed by seed. While rates are
 * tried all runs of a model belong to one share. */
ch_status ch_compare_divide(const ch_compare_setup *setup, int *share_of, ch_error *error);

#endif
