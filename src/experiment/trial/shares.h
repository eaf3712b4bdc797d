/* Orders runs by their predicted length, and divides them into shares of about equal length. The division depends on
 * the settings only, so that machines divide the runs equally without messages. */
#ifndef CH_EXPERIMENT_TRIAL_SHARES_H
#define CH_EXPERIMENT_TRIAL_SHARES_H

#include "experiment/trial/setup.h"

/* Sorts pieces [count] by length, the longest first, and listed [count] with them. With one group the order stays. */
ch_status ch_order_pieces(const ch_compare_setup *setup, ch_assignment *pieces, int *listed, int count,
                          ch_error *error);
/* Divides the runs into settings.schedule.parts shares. share_of [seeds, plan.count] receives the shares, from 0. If
 * rates are tuned, all runs of a model belong to one share. */
ch_status ch_compare_divide(const ch_compare_setup *setup, int *share_of, ch_error *error);

#endif
