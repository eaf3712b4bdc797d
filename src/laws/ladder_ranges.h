/* Intervals of 95 % for the results of a ladder's laws. */
#ifndef CH_LAWS_LADDER_RANGES_H
#define CH_LAWS_LADDER_RANGES_H

#include "laws/ladder_fit.h"

/* Fitted laws, and the scale of their noise. */
typedef struct ch_ladder_solution {
  int count;
  const ch_rung_losses *data; /* [count] */
  const ch_ladder_tables *tables;
  const ch_compute_law *laws; /* [count] */
  ch_law_fit fit;             /* fit with at least one degree of freedom */
} ch_ladder_solution;

/* Prepares the intervals of a fit; returns NULL when out of memory. Release with ch_ladder_ranges_free. *fitted's
 * arrays must outlive them. */
typedef struct ch_ladder_ranges ch_ladder_ranges;
ch_ladder_ranges *ch_ladder_ranges_new(const ch_ladder_solution *fitted);
void ch_ladder_ranges_free(ch_ladder_ranges *ranges);

/* Return the interval of a parameter of law `m`: the floor, the exponent, and the amplitude at one FLOP. */
ch_estimate ch_ladder_range_floor(const ch_ladder_ranges *ranges, int m);
ch_estimate ch_ladder_range_alpha(const ch_ladder_ranges *ranges, int m);
ch_estimate ch_ladder_range_amplitude(const ch_ladder_ranges *ranges, int m);
/* Returns the interval of the loss of a further run at log_flops. It includes the run's own noise. */
ch_estimate ch_ladder_range_loss(const ch_ladder_ranges *ranges, int m, double log_flops);
/* Returns the interval of a multiplier: the compute with which law `baseline` reaches the loss of law `m` at log_flops,
 * divided by the compute of log_flops and by `slower`. `error` is the relative standard error of `slower`. */
ch_estimate ch_ladder_range_multiplier(const ch_ladder_ranges *ranges, int m, int baseline, double log_flops,
                                       double slower, double error);
/* Returns the interval of log C at which law `b` overtakes law `a`, over the laws that cross from `low` to `high`. */
ch_estimate ch_ladder_range_crossing(const ch_ladder_ranges *ranges, int a, int b, double low, double high);

#endif
