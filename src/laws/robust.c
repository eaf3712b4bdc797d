/* Robust fitting of noisy losses: weights of M-estimators, the scale of the noise, and intervals from the
 * profile of a quantity. A profile needs no formula for the derivative of a quantity, and its interval need
 * not be symmetric. */
#include "laws/robust.h"

#include <math.h>
#include <stddef.h>

#include "base/median.h"
#include "laws/statistics.h"

static const double huber = 1.345, bisquare = 4.685;

double ch_robust_weight(double u, bool redescending) {
  double size = fabs(u);
  if (!redescending) return size <= huber ? 1 : huber / size;
  double v = 1 - u * u / (bisquare * bisquare);
  return v > 0 ? v * v : 0;
}

double ch_robust_scale(double *sizes, int n, int parameters) {
  return ch_median(sizes, n) * 1.4826 * n / (n - parameters + 0.5);
}

ch_robust_test ch_robust_make_test(int n, int parameters, const double *u, const double *weights,
                                   double scale, double correlation, double least) {
  double pull2 = 0, slope = 0, slope2 = 0, sum = 0, count = n, p = parameters;
  for (int i = 0; i < n; i++) {
    double v = u[i] * u[i] / (bisquare * bisquare), pull = u[i] * weights[i]; /* psi */
    double s = v < 1 ? (1 - v) * (1 - 5 * v) : 0;
    pull2 += pull * pull;
    slope += s / count;
    slope2 += s * s / count;
    sum += weights[i] / count;
  }
  slope = fmax(slope, 0.1);
  double worth = (1 - correlation) / (1 + correlation);
  double freedom = fmax(count * sum * worth - p, 2);
  double factor = 1 + p / count * fmax(slope2 - slope * slope, 0) / (slope * slope);
  double variance = factor * factor * scale * scale * fmax(pull2 / (count - p), 1e-300) / (slope * slope);
  double t = ch_student_t(0.05, freedom);
  return (ch_robust_test){.least = least, .per_unit = worth / (variance * sum), .critical = t * t};
}

bool ch_robust_passes(const ch_robust_test *test, double sum) {
  return (sum - test->least) * test->per_unit <= test->critical;
}

double ch_robust_reach(bool possible(void *context, double value), void *context, double from, double limit,
                       double step) {
  double inside = from, outside = limit, sign = limit > from ? 1 : -1;
  bool bounded = false;
  for (double next = from + sign * step; !bounded && sign * (limit - next) > 0; next = from + sign * step) {
    if (possible(context, next)) {
      inside = next;
    } else {
      outside = next;
      bounded = true;
    }
    step *= 2;
  }
  if (!bounded && possible(context, limit)) return limit;
  for (int i = 0; i < 18; i++) {
    double middle = (inside + outside) / 2;
    if (possible(context, middle))
      inside = middle;
    else
      outside = middle;
  }
  return (inside + outside) / 2;
}

/* Subtracts from `vector` its projection on the unit vector `column`, in the weighted inner product. Returns the square
 * of the projection. */
static double project(int n, const double *weights, const double *column, double *vector) {
  double product = 0;
  for (int i = 0; i < n; i++) product += weights[i] * column[i] * vector[i];
  for (int i = 0; i < n; i++) vector[i] -= product * column[i];
  return product * product;
}

static double weighted_square(int n, const double *weights, const double *vector) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += weights[i] * vector[i] * vector[i];
  return sum;
}

/* Returns the correlation of neighbours, from 0 to 0.95. */
static double neighbours(int n, const double *weights, const double *vector, double square) {
  double sum = 0;
  for (int i = 1; i < n; i++) sum += sqrt(weights[i - 1] * weights[i]) * vector[i - 1] * vector[i];
  return fmin(fmax(square > 0 ? sum / square : 0, 0), 0.95);
}

double ch_robust_systematic(int n, const double *u, const double *weights, double *columns, int parameters,
                            int count, bool ordered) {
  double *rest = columns + (size_t)count * (size_t)n, explained = 0, all = 0;
  int law = 0, smooth = 0;
  for (int i = 0; i < n; i++) {
    rest[i] = u[i];
    all += weights[i];
  }
  for (int c = 0; c < count; c++) {
    double *column = columns + (size_t)c * (size_t)n, before = weighted_square(n, weights, column);
    for (int twice = 0; twice < 2; twice++)
      for (int other = 0; other < c; other++)
        project(n, weights, columns + (size_t)other * (size_t)n, column);
    double after = weighted_square(n, weights, column);
    bool new_one = after > 1e-10 * before;
    for (int i = 0; i < n; i++) column[i] = new_one ? column[i] / sqrt(after) : 0;
    double share = project(n, weights, column, rest);
    if (c >= parameters) explained += share;
    *(c < parameters ? &law : &smooth) += new_one;
  }
  double noise = weighted_square(n, weights, rest);
  double correlation = ordered ? neighbours(n, weights, rest, noise) : 0;
  double worth = (1 - correlation) / (1 + correlation), freedom = all * worth - law - smooth;
  if (smooth == 0 || freedom < 1 || !(explained > noise)) return 0;
  double f = worth * (explained / smooth) / (noise / fmax(all - law - smooth, 1));
  return ch_f_outside(f, smooth, freedom) < 1e-3 ? sqrt(explained / all) : 0;
}
