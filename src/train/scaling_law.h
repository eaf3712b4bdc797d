/* The law L(D) = (D_c/D)^alpha + L_0 (MEA eq. 35): a robust fit to a loss curve, with confidence intervals.
 *
 * For a given alpha the law is linear in (D_c^alpha, L_0), so that a fit is a search over alpha alone and finds the best
 * there is. docs/sweep.md says what is minimised and where the intervals come from. */
#ifndef CH_TRAIN_SCALING_LAW_H
#define CH_TRAIN_SCALING_LAW_H

#include "base/error.h"

/* A value and the ends of its 95 % confidence interval: -INFINITY or INFINITY where the curve does not bound it. */
typedef struct ch_estimate {
  double value, low, high;
} ch_estimate;

typedef struct ch_scaling_law {
  ch_estimate alpha;
  ch_estimate tokens; /* D_c; its value may be INFINITY where alpha is tiny */
  ch_estimate floor;  /* L_0, never below 0 */
  ch_estimate at;     /* L(budget); NaN without one */
  double budget;      /* tokens that `at` is for; 0: none */
  double noise;       /* standard deviation of the last point about the law, outliers aside; and */
  double noise_power; /* of the loss, which it grows with: 0, 0.5, 1, 1.5 or 2 */
  double correlation; /* of a point's deviation with the next one's, from 0 to 0.95; widens the intervals */
  double first, last; /* tokens of the first and the last fitted point */
  int points;         /* fitted to */
  int outliers;       /* of those: points that count for less than half */
  double log_unit, amplitude; /* the law again: amplitude * (D / e^log_unit)^-alpha + L_0 */
} ch_scaling_law;

enum { CH_SCALING_LEAST_POINTS = 8 };

/* Fits the law to n points of rising tokens. budget: see `at`; 0 for none. Of more than 400 points neighbours
   are joined to their median. Errors (CH_ERROR_ARGUMENT): too few points, values that are not finite or not positive, tokens that do not
   rise, a curve that does not fall. */
ch_status ch_scaling_law_fit(const double *tokens, const double *losses, int n, double budget,
                             ch_scaling_law *law, ch_error *error);

/* The loss that a fitted law says for so many tokens. */
double ch_scaling_law_loss(const ch_scaling_law *law, double tokens);

#endif
