/* The scaling law of a mechanism's loss curve in a comparison. */
#ifndef CH_TRAIN_COMPARE_LAW_H
#define CH_TRAIN_COMPARE_LAW_H

#include "train/compare_summary.h"
#include "train/scaling_law.h"

/* Fits the law to the training losses after the warm-up, means over the group's runs; false: there are too few, or they do
   not fall. */
bool ch_group_law(const ch_group *group, const ch_compared_training *training, ch_scaling_law *law);
/* {"alpha": {"value", "low", "high"}, "tokens", "floor"}, null for what the curve does not bound. */
json_t *ch_law_to_json(const ch_scaling_law *law);

#endif
