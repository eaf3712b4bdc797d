/* The figures of a comparison, in the form of report/figure.h. All are NULL when memory is out. */
#ifndef CH_REPORT_COMPARE_FIGURES_H
#define CH_REPORT_COMPARE_FIGURES_H

#include <jansson.h>

#include "train/compare_summary.h"

/* Quality against what it is bought with, the front that nothing beats, and what is good enough. */
json_t *ch_figure_quality(const ch_summary *summary, const ch_comparison *comparison);
/* Losses while training, means over seeds, with the laws fitted to them. */
json_t *ch_figure_curves(const ch_summary *summary, const ch_comparison *comparison);
/* What every seed gave. */
json_t *ch_figure_seeds(const ch_summary *summary);
json_t *ch_figure_training_speed(const ch_summary *summary);
/* Decoding, or telling images apart. */
json_t *ch_figure_second_speed(const ch_summary *summary);
/* Decoding against the tokens in the cache. */
bool ch_has_depths(const ch_summary *summary);
json_t *ch_figure_depths(const ch_summary *summary);
/* What parameters and arithmetic are spent on. */
bool ch_has_account(const ch_summary *summary);
json_t *ch_figure_parameters(const ch_summary *summary);
json_t *ch_figure_flops(const ch_summary *summary);

#endif
