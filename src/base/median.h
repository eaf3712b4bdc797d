/* The median and the quartiles of some numbers. */
#ifndef CH_BASE_MEDIAN_H
#define CH_BASE_MEDIAN_H

#include <stdint.h>

/* Returns the median, or 0 without values. For an even number of values it is the mean of the two in the middle. Sorts
   the values. */
double ch_median(double *values, int64_t count);

/* The quartiles; half of the values are between `low` and `high`. */
typedef struct ch_quartiles {
  double low, median, high;
} ch_quartiles;
/* Returns the quartiles, interpolated between values, or zeros without values. Sorts the values. */
ch_quartiles ch_quartiles_of(double *values, int64_t count);

#endif
