/* Statistics of few values. */
#include "laws/statistics.h"

#include <math.h>

ch_spread ch_spread_of(const double *values, int count) {
  ch_spread spread = {.count = count};
  for (int i = 0; i < count; i++) spread.mean += values[i] / count;
  for (int i = 0; i < count; i++) spread.deviation += pow(values[i] - spread.mean, 2);
  spread.deviation = count > 1 ? sqrt(spread.deviation / (count - 1)) : 0;
  return spread;
}

static double away_from_zero(double x) {
  return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* Returns the regularised incomplete beta function I_x(a, b) for x < (a + 1) / (a + b + 2), by its continued
 * fraction (Abramowitz and Stegun 26.5.8), evaluated by Lentz's method. */
static double beta_below(double x, double a, double b) {
  double factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 1000; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= c * d;
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= c * d;
    if (fabs(c * d - 1) < 1e-15) break;
  }
  return factor * value;
}

/* Returns I_x(a, b) for any x from 0 to 1. y = 1 - x keeps its digits when x is near 1. */
static double beta(double x, double y, double a, double b) {
  if (!(x > 0)) return 0;
  if (!(y > 0)) return 1;
  return x < (a + 1) / (a + b + 2) ? beta_below(x, a, b) : 1 - beta_below(y, b, a);
}

/* Returns the probability that |t| is larger. */
static double outside_of(double t, double degrees) {
  double all = degrees + t * t;
  return beta(degrees / all, t * t / all, degrees / 2, 0.5);
}

double ch_f_outside(double f, double upper, double lower) {
  double all = lower + upper * f;
  return beta(lower / all, upper * f / all, lower / 2, upper / 2);
}

double ch_student_t(double outside, double degrees) {
  if (!(degrees > 0)) return INFINITY;
  double low = 0, high = 1;
  while (high < 1e300 && outside_of(high, degrees) > outside) high *= 2;
  while (high - low > 1e-13 * high) {
    double middle = low + (high - low) / 2;
    if (outside_of(middle, degrees) > outside)
      low = middle;
    else
      high = middle;
  }
  return high;
}
