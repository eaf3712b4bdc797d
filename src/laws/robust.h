/* Functions that fits of laws to noisy losses share: weights against outliers, the scale of the noise, intervals. */
#ifndef CH_LAWS_ROBUST_H
#define CH_LAWS_ROBUST_H

#include <stdbool.h>

/* Returns the weight of a deviation of `u` standard deviations: Huber's or, if redescending, Tukey's
 * bisquare. Both are 95 % efficient for normal noise. */
double ch_robust_weight(double u, bool redescending);

/* Estimates the standard deviation of n deviations from the median of their absolute values, after a fit of
 * `parameters` parameters. Reorders `sizes` [n], the absolute values. */
double ch_robust_scale(double *sizes, int n, int parameters);

/* A test that decides if a fit with a quantity held at a value is significantly worse than the best fit. */
typedef struct ch_robust_test {
  double least;    /* weighted sum of squares of the best fit */
  double per_unit; /* F statistic per unit of rise of the weighted sum of squares */
  double critical; /* largest F statistic within a 95 % interval */
} ch_robust_test;

/* Builds the test from n deviations u [n], in units of `scale`, with weights [n] from 0 to 1. cov = K^2 s^2
 * mean(psi^2) / mean(psi')^2 (X'X)^-1 for M-estimators, with Huber's small-sample factor K; the weighted sum
 * rises by mean(w) times the form of X'X. Noise of this correlation between neighbours is worth n (1-r)/(1+r)
 * independent points. */
ch_robust_test ch_robust_make_test(int n, int parameters, const double *u, const double *weights,
                                   double scale, double correlation, double least);
/* Returns true if a fit with this weighted sum of squares is within the 95 % interval. */
bool ch_robust_passes(const ch_robust_test *test, double sum);

/* Returns the end of a quantity's interval on the side of `limit`: the farthest possible value, or `limit`
 * itself if all up to it are possible. `from` must be possible. `step` is the first step from it. */
double ch_robust_reach(bool possible(void *context, double value), void *context, double from, double limit,
                       double step);

/* Returns how much of the deviations u [n] of a fit, with weights [n], is a smooth curve, not noise: the root mean
 * square of what the columns beyond the law's slopes explain. Returns 0 if that is less than what remains, or if
 * chance may explain it (0.1 %). columns [count][n], with room for [n] more, are overwritten. The first `parameters`
 * are the law's slopes, the others smooth functions. ordered: true if neighbours' noise may be correlated. */
double ch_robust_systematic(int n, const double *u, const double *weights, double *columns, int parameters,
                            int count, bool ordered);

#endif
