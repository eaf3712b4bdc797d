/* The learning rates of a sweep. */
#ifndef CH_EXPERIMENT_LINEUP_SWEEP_RATES_H
#define CH_EXPERIMENT_LINEUP_SWEEP_RATES_H

#include <crosshead/sweep.h>

#include "base/error.h"

/* A grid of different learning rates, the smallest first. */
typedef struct ch_rate_grid {
  double rates[CH_SWEEP_MOST_RATES];
  int count;
} ch_rate_grid;

/* Reads a grid of rates ("1e-4,5e-4,1e-3"), ranges of rates in equal ratios ("1e-4..1e-2:5"), or both. Errors:
 * CH_ERROR_ARGUMENT. */
ch_status ch_rate_grid_read(const char *text, ch_rate_grid *grid, ch_error *error);

#endif
