/* The whole preparation of a comparison or sweep. */
#ifndef CH_EXPERIMENT_TRIAL_PREPARE_H
#define CH_EXPERIMENT_TRIAL_PREPARE_H

#include "experiment/trial/setup.h"

/* Prepares the comparison or sweep up to the first step. `dry` is that of ch_compare_setup_plan. Release with
   ch_compare_setup_close, also on failure. */
ch_status ch_compare_prepare(const ch_compare_settings *settings, ch_experiment experiment, bool dry,
                             ch_comparison *comparison, ch_compare_setup *setup, ch_error *error);

#endif
