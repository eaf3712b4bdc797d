/* The scaling law of a mechanism's loss curve in a comparison. */
#ifndef CH_EXPERIMENT_FINDINGS_GROUP_LAW_H
#define CH_EXPERIMENT_FINDINGS_GROUP_LAW_H

#include <crosshead/fit.h>

#include "experiment/findings/summary.h"

/* Fits the law to the training losses after the warm-up, averaged over the group's runs. Returns false if there are
   too few points or the losses do not fall. */
bool ch_group_law(const ch_group *group, const ch_comparison_training *training, ch_scaling_law *law);
/* Returns the additional tokens, as a share of the training tokens, that lower a group's loss by `gap` nats according
 * to the law of its curve. INFINITY: no number of tokens is enough. Negative: there is no law,
 * or `gap` is not finite. */
double ch_group_more_tokens(const ch_group *group, const ch_comparison_training *training, double gap);
#endif
