/* The figures of a comparison, in the form of report/figure.h. Each ch_figure_ function returns NULL when out of
 * memory. */
#ifndef CH_REPORT_COMPARE_FIGURES_H
#define CH_REPORT_COMPARE_FIGURES_H

#include <jansson.h>

#include "experiment/findings/summary.h"

/* Returns quality against cost, with the Pareto front and the limit of quality that is good enough. */
json_t *ch_figure_quality(const ch_summary *summary, const ch_comparison *comparison);
/* Returns the curves of validation and training loss as means over seeds, with the fitted laws. */
json_t *ch_figure_curves(const ch_summary *summary, const ch_comparison *comparison);
/* Returns true if any model tried learning rates. ch_figure_rates shows the losses at these rates. */
bool ch_has_tried_rates(const ch_summary *summary);
json_t *ch_figure_rates(const ch_summary *summary);
/* Returns the quality of every run, seed by seed. */
json_t *ch_figure_seeds(const ch_summary *summary);
json_t *ch_figure_training_speed(const ch_summary *summary);
/* Returns the speed of decoding, or of classifying images. */
json_t *ch_figure_second_speed(const ch_summary *summary);
/* Returns true if decoding was timed at several depths. ch_figure_depths shows speed against tokens in the
 * cache. */
bool ch_has_depths(const ch_summary *summary);
json_t *ch_figure_depths(const ch_summary *summary);
/* Returns true if the FLOPs of any model are known. Then ch_figure_parameters and ch_figure_flops show the parameters
 * and FLOPs of each part of the models. */
bool ch_has_account(const ch_summary *summary);
json_t *ch_figure_parameters(const ch_summary *summary);
json_t *ch_figure_flops(const ch_summary *summary);

#endif
