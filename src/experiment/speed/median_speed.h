/* A speed that was measured several times: its median, its spread, and whether it can be relied on. */
#ifndef CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H
#define CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ch_median_speed {
  double median, spread; /* spread: half the distance between the quartiles */
  /* the spread is more than a tenth of the median, or the machine was busy with other programs */
  bool unsteady;
} ch_median_speed;

/* Sorts the values. */
ch_median_speed ch_median_speed_of(double *values, int64_t count, bool disturbed);
/* Returns true if `a` is more reliable than `b`: only `a` is steady, or its spread is smaller relative to its
 * median. */
bool ch_median_speed_is_steadier(ch_median_speed a, ch_median_speed b);

#endif
