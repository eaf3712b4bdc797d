/* Median and quartiles by sorting. */
#include "base/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double ch_median(double *values, int64_t count) {
  if (count <= 0) return 0;
  qsort(values, (size_t)count, sizeof *values, ascending);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double at_share(const double *sorted, int64_t count, double share) {
  double place = share * (double)(count - 1);
  int64_t below = (int64_t)place;
  if (below + 1 >= count) return sorted[count - 1];
  return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

ch_quartiles ch_quartiles_of(double *values, int64_t count) {
  double median = ch_median(values, count); /* sorts the values */
  if (count == 0) return (ch_quartiles){0};
  return (ch_quartiles){at_share(values, count, 0.25), median, at_share(values, count, 0.75)};
}
