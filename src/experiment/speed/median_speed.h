/* A speed that was measured several times: its median, its spread, and whether it can be relied on. */
#ifndef CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H
#define CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ch_rate {
  double median, spread; /* spread: half the distance between the quartiles */
  bool unsteady; /* the spread is more than a tenth of the median, or other programs kept the machine busy */
} ch_rate;

/* Sorts the values. */
ch_rate ch_rate_of(double *values, int64_t count, bool disturbed);
/* Returns true if `a` is more reliable than `b`: only `a` is steady, or its spread is smaller relative to its median. */
bool ch_rate_is_steadier(ch_rate a, ch_rate b);

#endif
