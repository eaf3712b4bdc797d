/* A speed that was measured several times: its median, spread and reliability. */
#ifndef CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H
#define CH_EXPERIMENT_SPEED_MEDIAN_SPEED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ch_median_speed {
  double median, spread; /* the spread is half the distance between the quartiles */
  /* true if the spread is more than a tenth of the median or other programs used the machine */
  bool unsteady;
} ch_median_speed;

/* Computes the median of values [count], which it sorts. disturbed: other programs used the machine. */
ch_median_speed ch_median_speed_of(double *values, int64_t count, bool disturbed);
/* Returns true if `a` is more reliable than `b`: only `a` is steady, or both or neither are and the spread of `a` is
 * smaller relative to its median. */
bool ch_median_speed_is_steadier(ch_median_speed a, ch_median_speed b);

#endif
