/* Matches training time: computes how many steps of each model fit into the time that the first model needs. */
#ifndef CH_EXPERIMENT_TRIAL_MATCH_TIME_H
#define CH_EXPERIMENT_TRIAL_MATCH_TIME_H

#include "experiment/trial/setup.h"

/* Fills in the plan's budget and the steps of its models if they are not known yet, by timing steps of the models in
 * turns. The budget is the time that the first model needs for the setup's steps. All ranks call it; rank 0
 * measures. */
ch_status ch_compare_match_time(ch_compare_setup *setup, ch_error *error);

#endif
