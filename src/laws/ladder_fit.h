/* The laws L = E + A C^-alpha of several mechanisms, fitted together by least squares: the loss L of a model against
 * the compute C that trained it. A mechanism's models are its rungs; C grows from rung to rung. */
#ifndef CH_LAWS_LADDER_FIT_H
#define CH_LAWS_LADDER_FIT_H

#include <crosshead/ladder.h>

enum { CH_LADDER_ALL_SHARES = CH_LADDER_MOST_SHARES + 1 };
/* The range of alpha that fits try. */
#define CH_LADDER_LEAST_ALPHA 0.005
#define CH_LADDER_MOST_ALPHA 2.0

/* The losses of a mechanism's rungs at the end of each run and, if shares > 1, at earlier shares of it. All runs have
 * the same shares. */
typedef struct ch_rung_losses {
  int rungs, shares;
  double log_flops[CH_LADDER_MOST_RUNGS]; /* [rungs]: ln of the training FLOPs, rising */
  /* [shares][rungs]; [0]: at the end of the runs */
  double losses[CH_LADDER_ALL_SHARES][CH_LADDER_MOST_RUNGS];
} ch_rung_losses;

/* L = floor + amplitude[share] exp(-alpha (log C - origin)). All shares of the runs have the same floor and alpha. */
typedef struct ch_compute_law {
  double floor, alpha, origin, amplitude[CH_LADDER_ALL_SHARES];
} ch_compute_law;

typedef struct ch_law_fit {
  double squares; /* sum of squared residuals, nats^2 */
  double degrees; /* degrees of freedom; a run's losses at all shares count once */
  bool one_floor; /* true if all laws have the same E */
} ch_law_fit;

/* Tables that all fits to the same compute use. */
typedef struct ch_ladder_tables ch_ladder_tables;
/* Returns NULL when out of memory. Release with free. */
ch_ladder_tables *ch_ladder_tables_new(const ch_rung_losses *data, int count);

/* Fits laws [count] to data [count]. The tables must be those of the data's compute. If `fine`, the laws are found to
 * all digits, else to about three digits, for fits that are repeated often. alpha is from CH_LADDER_LEAST_ALPHA to
 * CH_LADDER_MOST_ALPHA, and 0 <= E < the lowest loss. */
ch_law_fit ch_ladder_fit_laws(const ch_ladder_tables *tables, const ch_rung_losses *data, int count,
                              bool one_floor, bool fine, ch_compute_law *laws);

/* Fits laws `first` to `end` - 1 with this floor; returns the sum of squares. laws [end - first] */
double ch_ladder_fit_at_floor(const ch_ladder_tables *tables, const ch_rung_losses *data, int first, int end,
                              double floor, ch_compute_law *laws);

/* Returns the loss at the end of a run. */
double ch_compute_law_loss(const ch_compute_law *law, double log_flops);
/* Returns log C at which the law predicts this loss; INFINITY at or below its floor. */
double ch_compute_law_inverse(const ch_compute_law *law, double loss);
/* Returns log C from `low` to `high` at which law `b` overtakes law `a`; NaN if nowhere. */
double ch_compute_law_crossing(const ch_compute_law *a, const ch_compute_law *b, double low, double high);

#endif
