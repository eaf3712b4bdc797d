/* The learning rates of a sweep. */
#ifndef CH_EXPERIMENT_LINEUP_SWEEP_RATES_H
#define CH_EXPERIMENT_LINEUP_SWEEP_RATES_H

#include <crosshead/sweep.h>

#include "base/error.h"

/* Learning rates, the smallest first, each once. */
typedef struct ch_rate_grid {
  double rates[CH_SWEEP_MOST_RATES];
  int count;
} ch_rate_grid;

/* Reads a grid: "1e-4,5e-4,1e-3", or "1e-4..1e-2:5", as many rates in equal ratios, or both mixed. */
ch_status ch_rate_grid_read(const char *text, ch_rate_grid *grid, ch_error *error);

#endif
