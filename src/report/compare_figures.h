/* The figures of a comparison, in the form of report/figure.h. All are NULL when out of memory. */
#ifndef CH_REPORT_COMPARE_FIGURES_H
#define CH_REPORT_COMPARE_FIGURES_H

#include <jansson.h>

#include "experiment/findings/summary.h"

/* Returns quality against cost, with the Pareto front and the limit of what is good enough. */
json_t *ch_figure_quality(const ch_summary *summary, const ch_comparison *comparison);
/* Returns loss curves of training, means over seeds, with the laws fitted to them. */
json_t *ch_figure_curves(const ch_summary *summary, const ch_comparison *comparison);
/* Returns true if any model tried learning rates. ch_figure_rates shows the losses at them. */
bool ch_has_tried_rates(const ch_summary *summary);
json_t *ch_figure_rates(const ch_summary *summary);
/* Returns the result of every seed. */
json_t *ch_figure_seeds(const ch_summary *summary);
json_t *ch_figure_training_speed(const ch_summary *summary);
/* Returns the speed of decoding, or of classifying images. */
json_t *ch_figure_second_speed(const ch_summary *summary);
/* Returns true if decoding was timed at several depths. ch_figure_depths shows speed against tokens in the
 * cache. */
bool ch_has_depths(const ch_summary *summary);
json_t *ch_figure_depths(const ch_summary *summary);
/* Returns true if parameters and arithmetic are known by the parts of the model. */
bool ch_has_account(const ch_summary *summary);
json_t *ch_figure_parameters(const ch_summary *summary);
json_t *ch_figure_flops(const ch_summary *summary);

#endif
