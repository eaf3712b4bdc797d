/* Dunnett's critical values: how far the largest of several differences from one mean strays. */
#ifndef CH_LAWS_DUNNETT_H
#define CH_LAWS_DUNNETT_H

#include <stdbool.h>

/* Means are compared with one of them by Student's t statistics that are correlated by a half, as they are when all
 * means have the same variance. The table is prepared once for a number of comparisons; values for any degrees of
 * freedom are cheap then. */
enum { CH_DUNNETT_POINTS = 361 };
#define CH_DUNNETT_STEP 0.025
typedef struct ch_dunnett {
  /* probabilities that, with a known variance, some statistic (`above`) or some magnitude (`outside`) exceeds
     i * CH_DUNNETT_STEP */
  double above[CH_DUNNETT_POINTS], outside[CH_DUNNETT_POINTS];
} ch_dunnett;

/* Prepares the distribution for this number of comparisons, at least 1. */
void ch_dunnett_prepare(int comparisons, ch_dunnett *dunnett);
/* Returns the value that some statistic exceeds with probability `error` or, with `outside`, that some
 * magnitude exceeds. Degrees of freedom below 1 count as 1, and without any (0 or less) the value is
 * INFINITY. */
double ch_dunnett_value(const ch_dunnett *dunnett, bool outside, double error, double degrees);

#endif
