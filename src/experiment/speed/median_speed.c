/* Computes the median and spread of a speed that was measured several times. */
#include "experiment/speed/median_speed.h"

#include "base/median.h"

static const double largest_share = 0.1;

ch_median_speed ch_median_speed_of(double *values, int64_t count, bool disturbed) {
  ch_quartiles middle = ch_quartiles_of(values, count);
  ch_median_speed rate = {.median = middle.median, .spread = (middle.high - middle.low) / 2};
  rate.unsteady = disturbed || rate.spread > largest_share * rate.median;
  return rate;
}

bool ch_median_speed_is_steadier(ch_median_speed a, ch_median_speed b) {
  if (a.unsteady != b.unsteady) return b.unsteady;
  return a.spread * b.median < b.spread * a.median;
}
