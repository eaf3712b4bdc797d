/* The figures of a comparison, in the form of report/figure.h. All are NULL when out of memory. */
#ifndef CH_REPORT_COMPARE_FIGURES_H
#define CH_REPORT_COMPARE_FIGURES_H

#include <jansson.h>

#include "experiment/findings/summary.h"

/* Quality against cost, with the Pareto front and the limit of what is good enough. */
json_t *ch_figure_quality(const ch_summary *summary, const ch_comparison *comparison);
/* Loss curves of training, means over seeds, with the laws fitted to them. */
json_t *ch_figure_curves(const ch_summary *summary, const ch_comparison *comparison);
/* Losses at the learning rates that were tried, for models with such rates. */
bool ch_has_tried_rates(const ch_summary *summary);
json_t *ch_figure_rates(const ch_summary *summary);
/* The result of every seed. */
json_t *ch_figure_seeds(const ch_summary *summary);
json_t *ch_figure_training_speed(const ch_summary *summary);
/* The speed of decoding, or of classifying images. */
json_t *ch_figure_second_speed(const ch_summary *summary);
/* Decoding speed against the number of tokens in the cache. */
bool ch_has_depths(const ch_summary *summary);
json_t *ch_figure_depths(const ch_summary *summary);
/* How parameters and arithmetic divide among the parts of a model. */
bool ch_has_account(const ch_summary *summary);
json_t *ch_figure_parameters(const ch_summary *summary);
json_t *ch_figure_flops(const ch_summary *summary);

#endif
