/* The multivariate t distribution of Dunnett's test, by numerical integration.
 *
 * With a correlation of a half, the statistics of p comparisons are T_j = (sqrt(1/2) x_j - sqrt(1/2) z) / s, where
 * the x_j and z are independent normal variables and degrees * s^2 is chi-square. Given a = T s, the p comparisons
 * are independent once z is given: P(all T_j <= a) = E_z[Phi(sqrt(2) a + z)^p]. That function of a is tabulated; the
 * integral over s uses the table's own points. */
#include "laws/dunnett.h"

#include <math.h>

/* Both integrands are smooth and vanish at the ends, where the trapezoidal rule converges exponentially: z_step
 * against the normal density's width of 1, CH_DUNNETT_STEP against the width of the density of s at most_degrees. */
static const double z_step = 0.25, z_most = 8, most_degrees = 1000;

static double normal_below(double x) {
  return 0.5 * erfc(-x * M_SQRT1_2);
}

void ch_dunnett_prepare(int comparisons, ch_dunnett *dunnett) {
  for (int i = 0; i < CH_DUNNETT_POINTS; i++) {
    double a = M_SQRT2 * CH_DUNNETT_STEP * i, above = 0, outside = 0;
    for (double z = -z_most; z <= z_most; z += z_step) {
      double weight = z_step * exp(-z * z / 2) / sqrt(2 * M_PI), below = normal_below(a + z);
      above -= weight * expm1(comparisons * log(below));
      outside -= weight * expm1(comparisons * log(below - normal_below(z - a)));
    }
    dunnett->above[i] = above;
    dunnett->outside[i] = outside;
  }
}

/* Returns the probability that a statistic exceeds `value`: the integral over s of the density of s times the
 * table's entry for s * value. */
static double probability(const double *table, double value, double degrees) {
  double constant = M_LN2 + degrees / 2 * log(degrees / 2) - lgamma(degrees / 2), sum = 0;
  if (!(degrees > 1)) sum = 0.5 * exp(constant) * table[0];
  for (int i = 1; i < CH_DUNNETT_POINTS; i++) {
    double s = CH_DUNNETT_STEP * i / value,
           exponent = constant + (degrees - 1) * log(s) - degrees * s * s / 2;
    if (exponent > -50) sum += exp(exponent) * table[i];
  }
  return sum * CH_DUNNETT_STEP / value;
}

double ch_dunnett_value(const ch_dunnett *dunnett, bool outside, double error, double degrees) {
  const double *table = outside ? dunnett->outside : dunnett->above;
  if (!(degrees > 0)) return INFINITY;
  degrees = fmin(fmax(degrees, 1), most_degrees);
  double low = 0.01, high = 2, before = 1, after = probability(table, high, degrees);
  while (high < 1e6 && after > error) {
    low = high, before = after;
    high *= 2, after = probability(table, high, degrees);
  }
  while (high - low > 0.01 * high) {
    double middle = (low + high) / 2, of_middle = probability(table, middle, degrees);
    if (of_middle > error)
      low = middle, before = of_middle;
    else
      high = middle, after = of_middle;
  }
  /* The logarithm of the probability is nearly linear over so short an interval. */
  return after < before ? low + (high - low) * log(before / error) / log(before / after) : high;
}
