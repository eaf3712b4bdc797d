/* The median of some numbers, and their quartiles. */
#ifndef CH_BASE_MEDIAN_H
#define CH_BASE_MEDIAN_H

#include <stdint.h>

/* Returns the median: for an even number of values the mean of the two in the middle, 0 without values. Sorts
   the values. */
double ch_median(double *values, int64_t count);

/* Half of the values are between `low` and `high`. Between two values quartiles are interpolated; of one
   value, all are it. */
typedef struct ch_quartiles {
  double low, median, high;
} ch_quartiles;
/* Returns the quartiles, or zeros without values. Sorts the values. */
ch_quartiles ch_quartiles_of(double *values, int64_t count);

#endif
