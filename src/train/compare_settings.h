/* compare.json: the options a directory's comparison was started with, so that it is only continued with the same. */
#ifndef CH_TRAIN_COMPARE_SETTINGS_H
#define CH_TRAIN_COMPARE_SETTINGS_H

#include "train/compare.h"
#include "train/compare_plan.h"

/* Compares the options and the config files with DIR/compare.json. *kept: there is one, and it has the same. A difference
   is CH_ERROR_ARGUMENT with the option's name and both values. */
ch_status ch_compare_settings_check(const ch_compare_options *options, const ch_compare_plan *plan,
                                    bool *kept, ch_error *error);
/* Writes DIR/compare.json. */
ch_status ch_compare_settings_write(const ch_compare_options *options, const ch_compare_plan *plan,
                                    ch_error *error);

#endif
